// A process that was given a bundle and has no compiler: everything that it launches is in it. And
// what else holds of kernels that a process keeps once they were launched.
#include <trencadis/trencadis.h>

#include <filesystem>
#include <string>
#include <vector>

#include "codegen/cuda_service_source.h"
#include "codegen/cuda_source.h"
#include "contract/check_plan.h"
#include "jit/nvrtc.h"
#include "unit/backends_cuda/fixture.h"

namespace trencadis::cuda {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr int kDim = 32, kPage = 4;

void find_nothing(const char*, unsigned grid, unsigned block, unsigned, void** parameters, void*) {
  const auto& params = *static_cast<const contract::CheckPlanParams*>(parameters[0]);
  for (unsigned warp = 0; warp < grid * block / 32; ++warp)
    params.faults[warp].order = contract::PlanFault::kNone;
}

class BundleTest : public CudaTest {
 protected:
  void SetUp() override {
    if (const jit::CompilerDescription nvrtc = jit::describe_nvrtc(); !nvrtc.available)
      GTEST_SKIP() << "nothing makes the bundle: " << nvrtc.reason;
    std::string path = (fs::temp_directory_path() / "trencadis-bundle.XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    directory_ = path;
    fake_.set_global(codegen::kSharedBytesSymbol, 1024);
    spec_.head_dim_qk = kDim;
    spec_.dtype_q = spec_.dtype_kv = spec_.dtype_o = DType::f32;
    config_.heads = {2, 1};
    config_.page_size = kPage;
    config_.backend = BackendKind::cuda;
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::string bundle() const { return directory_ / "bundle"; }
  std::string cache() const { return directory_ / "cache"; }

  /// Of device memory, which the fake's launches do not touch.
  TensorView tensor(std::vector<std::int64_t> shape, DType dtype = DType::f32) {
    return TensorView(memory_.data(), dtype, shape, {DeviceKind::cuda, 0});
  }

  void serve_a_step() {
    Attention attention(spec_, config_);
    const std::vector<std::int32_t> qo_indptr{0, 1}, kv_indptr{0, 2}, pages{1, 0}, kv_lens{6};
    const TensorView pool = tensor({2, kPage, 1, kDim}), row = tensor({1, 1, kDim}),
                     q = tensor({1, 2, kDim}), lse = tensor({1, 2});
    append_kv(row, row, {pool, pool}, {.slots = tensor({1}, DType::i64)});
    attention.plan(qo_indptr, kv_indptr, pages, kv_lens);
    attention.run({.q = q, .k = pool, .v = pool, .out = q, .lse = lse});
    std::vector<float> other(memory_.size());
    const TensorView merged(other.data(), DType::f32, {1, 2, kDim}, {DeviceKind::cuda, 0});
    const TensorView merged_lse(other.data() + 1024, DType::f32, {1, 2}, {DeviceKind::cuda, 0});
    merge_states(q, lse, q, lse, merged, merged_lse);
  }

  fs::path directory_;
  AttentionSpec spec_;
  AttentionConfig config_;
  std::vector<float> memory_ = std::vector<float>(4096);
};

TEST_F(BundleTest, NothingIsCompiledAndNothingWritten) {
  {
    const ScopedVariable place("TRENCADIS_CACHE_DIR", bundle());
    compile(spec_, "sm_90a");
  }
  const ScopedVariable no_compiler("TRENCADIS_LIBNVRTC", "/nonexistent/libnvrtc.so");
  const ScopedVariable place("TRENCADIS_CACHE_DIR", cache());
  EXPECT_THAT(error_text(ErrorKind::not_supported, [&] { serve_a_step(); }),
              HasSubstr("is not in the cache " + cache()));
  const ScopedVariable prebuilt("TRENCADIS_BUNDLE", bundle());
  const int launched = fake_.count("launch");
  serve_a_step();
  EXPECT_GE(fake_.count("launch"), launched + 3) << "append, attention, merge";
  const ScopedVariable debug("TRENCADIS_DEBUG_CHECKS", "1");
  fake_.on_launch(codegen::kCheckPlanSymbol, {sizeof(contract::CheckPlanParams)}, find_nothing,
                  nullptr);
  serve_a_step();
  EXPECT_FALSE(fs::exists(cache()));
}

// The fake refuses code of another architecture, and functions of another device's context.
TEST_F(BundleTest, ServicesAreTheirTensorsDevices) {
  fake_.set_attribute_of(1, 75, 8);  // a compute capability of 8.0
  const auto append = [&](int device) {
    const auto on_it = [&](std::vector<std::int64_t> shape, DType dtype) {
      return TensorView(memory_.data(), dtype, shape, {DeviceKind::cuda, device});
    };
    const TensorView pool = on_it({2, kPage, 1, kDim}, DType::bf16),
                     row = on_it({1, 1, kDim}, DType::f32);
    append_kv(row, row, {pool, pool}, {.slots = on_it({1}, DType::i64)});
  };
  const int launched = fake_.count("launch");
  for (const int device : {1, 0, 1, 0}) append(device);
  EXPECT_EQ(fake_.count("launch"), launched + 4);
  EXPECT_EQ(fake_.current_device(), -1);
  fake_.set_attribute_of(1, 75, -1);
}

// Kernels that no spec shapes have no config: the environment that they are loaded in decides, so
// these are of dtypes that the other test does not load.
TEST_F(BundleTest, InTheDebugModeAServiceThatFailsIsNamed) {
  const ScopedVariable debug("TRENCADIS_DEBUG_CHECKS", "1");
  const TensorView pool = tensor({2, kPage, 1, kDim}, DType::f16),
                   row = tensor({1, 1, kDim}, DType::bf16), slots = tensor({1}, DType::i64);
  const auto append = [&](void* stream) {
    append_kv(row, row, {pool, pool}, {.slots = slots}, {.stream = stream});
  };
  append(nullptr);
  char handle = 0;
  fake_.begin_capture(&handle);
  append(&handle);
  EXPECT_NE(fake_.end_capture(&handle), nullptr) << "nothing is waited for in a capture";
  const std::string kernel = "trencadis_append_bfloat16_float16";
  fake_.fault(kernel, 700);
  EXPECT_THAT(
      error_text(ErrorKind::device, [&] { append(nullptr); }),
      HasSubstr(kernel + " of cuda_pages_bfloat16_float16 failed while it ran on cuda:0 ("));
  fake_.fault(kernel, 0);
}

}  // namespace
}  // namespace trencadis::cuda
