#include "simt/emulated_device.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "backends/cuda/driver.h"
#include "backends/cuda/kernel_policy.h"
#include "codegen/cuda_architecture.h"
#include "codegen/cuda_service_source.h"
#include "codegen/cuda_source.h"
#include "contract/check_plan.h"
#include "cuda/entry/attention.h"
#include "cuda/entry/attention_ring.h"
#include "cuda/entry/check_plan.h"
#include "jit/nvrtc.h"
#include "simt/launch.h"
#include "simt/run_emulated.h"
#include "support/with_extent.h"
#include "variant/stock.h"

namespace trencadis::testing {
namespace {

using collective::Tile;
using collective::TileClasses;

constexpr double kLsePoison = 123.0;
constexpr const char* kArchitecture = "sm_90a";  // of the fake's devices
constexpr const char* kTemplateVariable = "TRENCADIS_CUDA_TEMPLATE";

// Attributes of cuda.h.
constexpr int kMultiprocessors = 16;
constexpr int kMemoryClockKhz = 36;
constexpr int kMemoryBusBits = 37;

struct NoParams {
  static NoParams load(const contract::VariantArgs&) { return {}; }
};
struct SoftCapParams {
  float soft_cap;
  static SoftCapParams load(const contract::VariantArgs& args) {
    return {static_cast<float>(args.scalars[0])};
  }
};

template <class Tag, int kQk, int kVo, class Classes, class V = variant::Chain<>,
          class P = NoParams>
struct Configured {
  static constexpr int kHeadDimQk = kQk, kHeadDimVo = kVo;
  using Element = Tag;
  using Output = Tag;
  static constexpr bool kUseSoftmax = true;
  static constexpr int kWarps = 4;
  using TileClasses = Classes;
  using Functor = V;
  using Params = P;
};

using Matrices = TileClasses<Tile<16, 64, 4>, Tile<64, 64, 4>, Tile<128, 64, 4>>;

/// The same by the Hopper template.
template <class Portable>
struct Ring : Portable {
  static constexpr int kWarps = 8;
  static constexpr int kQueryBuffers = 2;
  using TileClasses = collective::TileClasses<Tile<16, 128, 8>, Tile<128, 128, 8>>;
};

int device_of(const void* memory) {
  int ordinal = -1;
  const cuda::Status status =
      cuda::driver().pointer_get_attribute.status(&ordinal, cuda::PointerAttribute::device_ordinal,
                                                  reinterpret_cast<cuda::DevicePointer>(memory));
  return status == cuda::Status::success ? ordinal : -1;
}

/// Notes the launch and runs `kernel` a thread.
template <class Params>
void run_grid(const char* function, unsigned grid, unsigned block, unsigned shared_bytes,
              const Params& params, const contract::PlanImage* plan, void* user,
              const std::function<void()>& kernel) {
  auto& device = *static_cast<EmulatedDevice*>(user);
  const auto* bytes = reinterpret_cast<const std::byte*>(&params);
  device.launches.push_back({function,
                             grid,
                             block,
                             shared_bytes,
                             {bytes, bytes + sizeof params},
                             plan,
                             device.fake().current_device(),
                             device_of(plan)});
  try {
    simt::launch({.ctas = static_cast<int>(grid),
                  .threads = static_cast<int>(block),
                  .shared_bytes = shared_bytes,
                  .seed = device.launches.size()},
                 kernel);
  } catch (const std::exception& error) {
    ADD_FAILURE() << function << ": " << error.what();
  }
}

template <class Config>
void attend(const char* function, unsigned grid, unsigned block, unsigned shared_bytes,
            void** parameters, void* user) {
  const auto& params = *static_cast<const contract::AttentionParams*>(parameters[0]);
  const auto* plan = *static_cast<const contract::PlanImage* const*>(parameters[1]);
  run_grid(function, grid, block, shared_bytes, params, plan, user,
           [&] { simt::attend<Config>(params, plan); });
}

template <class Config>
EmulatedKernel emulated(AttentionSpec spec) {
  EmulatedKernel kernel{.of = KernelTemplate::portable,
                        .spec = std::move(spec),
                        .threads = simt::kThreads<Config>,
                        .query_buffers = 1,
                        .shared_bytes = simt::kSharedBytes<Config>,
                        .classes = simt::classes_of(typename Config::TileClasses{}),
                        .stages = simt::stages_of(typename Config::TileClasses{}),
                        .attention = attend<Config>};
  if constexpr (simt::kIsRing<Config>) {
    kernel.of = KernelTemplate::hopper;
    kernel.query_buffers = Config::kQueryBuffers;
  }
  return kernel;
}

void check_plan(const char* function, unsigned grid, unsigned block, unsigned shared_bytes,
                void** parameters, void* user) {
  const auto& params = *static_cast<const contract::CheckPlanParams*>(parameters[0]);
  run_grid(function, grid, block, shared_bytes, params, params.plan, user,
           [&] { entry::check_plan(params); });
}

AttentionSpec spec_of(DType dtype, int qk, int vo, Variant variant = {}) {
  AttentionSpec spec;
  spec.head_dim_qk = qk;
  spec.head_dim_vo = vo;
  spec.dtype_q = spec.dtype_kv = spec.dtype_o = dtype;
  spec.variant = std::move(variant);
  return spec;
}

void bring(HostTensor& to, const HostTensor& from) {
  fill(to.whole(), kNan);
  std::memcpy(to.bytes().data(), from.bytes().data(), from.bytes().size());
}

/// Where `view` of `from` lies in `to`, which has more of the outermost dimension.
TensorView moved(const TensorView& view, const HostTensor& from, const HostTensor& to,
                 std::int64_t extent) {
  const auto offset = static_cast<const std::byte*>(view.data()) -
                      static_cast<const std::byte*>(from.whole().data());
  std::vector<std::int64_t> shape(view.shape().begin(), view.shape().end());
  shape[0] = extent;
  return TensorView(static_cast<std::byte*>(to.whole().data()) + offset, view.dtype(), shape,
                    view.strides(), {DeviceKind::cuda, 0});
}

}  // namespace

EmulatedKernel plain_bf16(KernelTemplate of) {
  using Portable = Configured<ptx::BFloat, 64, 64, Matrices>;
  AttentionSpec spec = spec_of(DType::bf16, 64, 64);
  if (of == KernelTemplate::portable) return emulated<Portable>(std::move(spec));
  return emulated<Ring<Portable>>(std::move(spec));
}

EmulatedKernel soft_capped_f16(KernelTemplate of) {
  using Functor = variant::Chain<variant::SoftCap>;
  const Variant variant = variants::softmax({.soft_cap = 1.5, .sinks = true});
  if (of == KernelTemplate::portable)
    return emulated<Configured<ptx::Half, 64, 40, Matrices, Functor, SoftCapParams>>(
        spec_of(DType::f16, 64, 40, variant));
  return emulated<Ring<Configured<ptx::Half, 64, 64, Matrices, Functor, SoftCapParams>>>(
      spec_of(DType::f16, 64, 64, variant));
}

EmulatedKernel plain_f32() {
  return emulated<Configured<float, 32, 32, TileClasses<Tile<1, 64, 4>>>>(
      spec_of(DType::f32, 32, 32));
}

const FakeCuda& EmulatedDevice::fake() const {
  static const FakeCuda instance;
  return instance;
}

void EmulatedDevice::SetUpTestSuite() {
  setenv("TRENCADIS_LIBCUDA", FakeCuda::path().c_str(), 1);
}

void EmulatedDevice::SetUp() {
  if (const jit::CompilerDescription nvrtc = jit::describe_nvrtc(); !nvrtc.available)
    GTEST_SKIP() << "the backend compiles what it loads: " << nvrtc.reason;
  fake().set_attribute(kMultiprocessors, 4);
  fake().set_attribute(kMemoryClockKhz, 10'000);  // 0.6 GB/s
  fake().set_attribute(kMemoryBusBits, 256);
}

void EmulatedDevice::TearDown() {
  unsetenv(kTemplateVariable);
  EXPECT_EQ(fake().queued(stream()), 0);
  for (const char* what :
       {"freed in use", "device buffer", "pinned buffer", "event", "module", "primary context"})
    EXPECT_EQ(fake().count(what), 0) << what;
  EXPECT_EQ(fake().current_device(), -1);
}

void EmulatedDevice::use(const EmulatedKernel& kernel) {
  if (kernel.of == KernelTemplate::portable)
    setenv(kTemplateVariable, "portable", 1);
  else
    unsetenv(kTemplateVariable);
  const cuda::KernelPolicy policy =
      cuda::kernel_policy(kernel.spec, *codegen::find_cuda_architecture(kArchitecture));
  ASSERT_EQ(policy.config.threads(), kernel.threads);
  ASSERT_EQ(policy.config.query_buffers, kernel.query_buffers);
  ASSERT_EQ(policy.config.stages, kernel.stages);
  ASSERT_EQ(policy.config.classes.size(), kernel.classes.size());
  for (std::size_t i = 0; i < kernel.classes.size(); ++i) {
    ASSERT_EQ(policy.config.classes[i].q_rows, kernel.classes[i].q_rows) << i;
    ASSERT_EQ(policy.config.classes[i].kv_tokens, kernel.classes[i].kv_tokens) << i;
  }
  launches.clear();
  fake().set_global(codegen::kSharedBytesSymbol, kernel.shared_bytes);
  fake().on_launch(codegen::kAttentionSymbol,
                   {sizeof(contract::AttentionParams), sizeof(const contract::PlanImage*)},
                   kernel.attention, this);
  fake().on_launch(codegen::kCheckPlanSymbol, {sizeof(contract::CheckPlanParams)}, check_plan,
                   this);
}

TensorView on_device(const TensorView& view, int index) {
  if (!view.defined()) return view;
  return TensorView(view.data(), view.dtype(), view.shape(), view.strides(),
                    {DeviceKind::cuda, index});
}

AttentionConfig cuda_config(const Problem& problem) {
  AttentionConfig config = problem.config;
  config.backend = BackendKind::cuda;
  return config;
}

Output run_on_device(Attention& attention, const Problem& problem, void* stream) {
  return collect(problem, [&](const RunArgs& host) {
    const int index = attention.config().device_index;
    RunArgs args = host;
    for (TensorView* view : {&args.q, &args.k, &args.v, &args.out, &args.lse, &args.sinks})
      *view = on_device(*view, index);
    std::vector<TensorView> tensors;
    for (const TensorView& tensor : host.tensors) tensors.push_back(on_device(tensor, index));
    args.tensors = tensors;
    args.stream = stream;
    attention.run(args);
  });
}

CallersMemory::CallersMemory(std::int64_t bytes, std::uint8_t value)
    : storage_(static_cast<std::size_t>(bytes + 3 * kGuard), value), bytes_(bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
  begin_ = storage_.data() + 2 * kGuard - address % kGuard;
  std::fill(storage_.data(), begin_, std::uint8_t{0x5a});
  std::fill(begin_ + bytes_, storage_.data() + storage_.size(), std::uint8_t{0x5a});
}

TensorView CallersMemory::view(std::int64_t less) {
  return TensorView(begin_, DType::u8, {bytes_ - less}, {DeviceKind::cuda, 0});
}

bool CallersMemory::guards_are_intact() const {
  const auto intact = [](const std::uint8_t* begin, const std::uint8_t* end) {
    return std::all_of(begin, end, [](std::uint8_t byte) { return byte == 0x5a; });
  };
  return intact(storage_.data(), begin_) &&
         intact(begin_ + bytes_, storage_.data() + storage_.size());
}

FixedTensors::FixedTensors(const Problem& like, std::int64_t tokens, std::int64_t pages)
    : tokens_(tokens),
      q_(like.spec.dtype_q, with_extent(like.q_storage, tokens)),
      pool_(like.spec.dtype_kv, with_extent(like.k_storage, pages)),
      out_(like.spec.dtype_o, {tokens, like.config.heads.qo + 1, like.spec.vo() + 8}),
      lse_(DType::f32, {like.config.heads.qo, tokens}, kLsePoison) {}

FixedTensors::FixedTensors(const Problem& problem)
    : FixedTensors(problem, problem.nnz_q(), problem.k_storage.whole().size(0)) {
  load(problem);
}

void FixedTensors::load(const Problem& problem) {
  bring(q_, problem.q_storage);
  bring(pool_, problem.k_storage);
  fill(out_.whole(), kNan);
  fill(lse_.whole(), kLsePoison);
}

RunArgs FixedTensors::args(const Problem& problem, void* stream) {
  const std::int64_t tokens = problem.nnz_q(), heads = problem.config.heads.qo;
  const std::int64_t lse_shape[] = {tokens, heads}, lse_strides[] = {1, tokens_};
  const std::int64_t pages = pool_.whole().size(0);
  RunArgs args;
  args.q = moved(problem.q, problem.q_storage, q_, tokens);
  args.k = moved(problem.k, problem.k_storage, pool_, pages);
  args.v = moved(problem.v, problem.k_storage, pool_, pages);
  args.out =
      on_device(out_.whole().slice(0, 0, tokens).slice(1, 0, heads).slice(2, 0, problem.spec.vo()));
  args.lse = on_device(TensorView(lse_.whole().data(), DType::f32, lse_shape, lse_strides));
  args.stream = stream;
  return args;
}

Output FixedTensors::output(const Problem& problem) const {
  const std::int64_t tokens = problem.nnz_q(), heads = problem.config.heads.qo;
  const std::int64_t lse_shape[] = {tokens, heads}, lse_strides[] = {1, tokens_};
  const TensorView written =
      out_.whole().slice(0, 0, tokens).slice(1, 0, heads).slice(2, 0, problem.spec.vo());
  for (const double x : to_doubles(out_.whole().slice(0, tokens, tokens_)))
    EXPECT_TRUE(std::isnan(x)) << "a row beyond the batch was written";
  for (const double x : to_doubles(lse_.whole().slice(1, tokens, tokens_)))
    EXPECT_EQ(x, kLsePoison) << "a row beyond the batch was written";
  return {to_doubles(written),
          to_doubles(TensorView(lse_.whole().data(), DType::f32, lse_shape, lse_strides))};
}

}  // namespace trencadis::testing
