// The debug mode on a device: the kernel that checks plans as ptxas makes it, page ids and images
// that are damaged there, and a context that takes calls as before afterwards. What each part of an
// image is reported as is tested by emulation (tests/simt/debug_checks_test.cpp).
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "contract/plan_image.h"
#include "gpu/step_tensors.h"
#include "support/backend_under_test.h"
#include "support/compare.h"
#include "support/expect_error.h"
#include "support/split_modes.h"

namespace trencadis::testing {
namespace {

const std::vector<Lengths> kMixed{{1, 3000}, {20, 64}, {1, 0}, {140, 141}, {3, 2}, {1, 1}};

ProblemBuilder builder(std::vector<Lengths> lengths = kMixed) {
  ProblemBuilder b;
  b.heads(8, 2).dims(64).dtype(DType::bf16).page_size(16).causal().lengths(std::move(lengths));
  return b;
}

AttentionConfig checked(const Problem& problem) {
  AttentionConfig config = problem.config;
  config.debug_checks = true;
  return config;
}

TEST(GpuDebugChecks, RunsHaveTheBitsOfTheOrdinaryMode) {
  const std::vector<std::vector<Lengths>> batches{
      kMixed, {}, {{1, 0}, {0, 7}}, std::vector<Lengths>(16, {1, 700}), {{300, 1000}, {130, 130}}};
  for (const PlanOptions& options : {PlanOptions{}, unsplit(), invariant()})
    for (const std::vector<Lengths>& batch : batches)
      for (const std::int64_t page : {1, 7, 64}) {
        const Problem problem = builder(batch).page_size(page).plan(options).build();
        Attention plain(problem.spec, problem.config), debug(problem.spec, checked(problem));
        for (Attention* attention : {&plain, &debug}) attention->plan(problem.plan_input());
        const StepTensors expected(problem), tensors(problem);
        plain.run(expected.args(problem, nullptr));
        for (int layer = 0; layer < 2; ++layer) debug.run(tensors.args(problem, nullptr));
        EXPECT_TRUE(same_bits(tensors.output(problem), expected.output(problem))) << page;
      }
}

TEST(GpuDebugChecks, APageIdBeyondThePoolIsNamedWithItsRequest) {
  Problem problem = builder().build();
  const std::string pages = std::to_string(problem.k.size(0));
  const int entry = problem.matrix.indptr[3] + 2;
  const int right = std::exchange(problem.matrix.indices[entry], 1 << 30);
  Attention attention(problem.spec, checked(problem));
  DeviceStream stream(device_under_test());
  StepTensors tensors(problem);
  attention.plan(problem.plan_input(), stream.handle());
  for (int layer = 0; layer < 2; ++layer)
    expect_error(ErrorKind::invalid_argument,
                 {"kv_indices[" + std::to_string(entry) + "] is 1073741824", "request 3",
                  "page 2 of its row", "k and v hold"},
                 [&] { attention.run(tensors.args(problem, stream.handle())); });
  problem.matrix.indices[entry] = right;
  attention.plan(problem.plan_input(), stream.handle());
  attention.run(tensors.args(problem, stream.handle()));
  stream.synchronize();
  EXPECT_TRUE(close_to_reference(tensors.output(problem), problem));
}

TEST(GpuDebugChecks, ADamagedPlanIsNamedAndNotRun) {
  if (backend_under_test() != BackendKind::cuda) GTEST_SKIP() << "plans stay on the host";
  const Problem problem = builder().build();
  DeviceMemory workspace(device_under_test(), std::int64_t{16} << 20);
  AttentionConfig config = checked(problem);
  config.workspace =
      TensorView(workspace.data(), DType::u8, {workspace.bytes()}, workspace.device());
  Attention attention(problem.spec, config);
  StepTensors tensors(problem);
  const auto run = [&] { attention.run(tensors.args(problem, nullptr)); };
  attention.plan(problem.plan_input());
  run();
  EXPECT_TRUE(close_to_reference(tensors.output(problem), problem));
  contract::PlanImage image;
  workspace.download(&image, sizeof image);
  contract::ImageItem item;
  workspace.download(&item, sizeof item, image.items_offset);
  const auto damage = [&](auto contract::ImageItem::*member, std::int32_t value) {
    contract::ImageItem wrong = item;
    wrong.*member = value;
    workspace.upload(&wrong, sizeof wrong, image.items_offset);
  };
  damage(&contract::ImageItem::kv_end, 1 << 20);
  expect_error(ErrorKind::internal, {"kv_end of item 0 (request ", "is 1048576, expected "}, run);
  damage(&contract::ImageItem::kv_begin, -1);
  expect_error(ErrorKind::internal, {"kv_begin of item 0 (request ", "is -1, expected 0 to "}, run);
  const std::vector<std::uint8_t> dirt(static_cast<std::size_t>(image.bytes), 0xff);
  workspace.upload(dirt.data(), image.bytes);
  expect_error(ErrorKind::internal, {"num_queues of the header is -1, expected "}, run);
  attention.plan(problem.plan_input());
  run();
  EXPECT_TRUE(close_to_reference(tensors.output(problem), problem)) << "after the next plan()";
}

TEST(GpuDebugChecks, ARunIsNotCaptured) {
  if (backend_under_test() != BackendKind::cuda) GTEST_SKIP() << "no graph is captured";
  Limits limits;
  limits.max_batch = 8;
  limits.max_qo_tokens = 200;
  limits.max_pages = 400;
  const Problem problem = builder().limits(limits).build();
  Attention attention(problem.spec, checked(problem));
  DeviceStream stream(device_under_test());
  StepTensors tensors(problem);
  attention.plan(problem.plan_input(), stream.handle());
  expect_error(ErrorKind::invalid_argument, {"being captured, in the debug mode"}, [&] {
    DeviceGraph(stream, [&] { attention.run(tensors.args(problem, stream.handle())); });
  });
  attention.run(tensors.args(problem, stream.handle()));
  stream.synchronize();
  EXPECT_TRUE(close_to_reference(tensors.output(problem), problem));
}

// Out of the ordinary mode, in a process that ends with it: the context is lost.
TEST(GpuDebugChecksDeathTest, AFaultOutsideOfTheDebugModeTellsOfItsLaunch) {
  if (backend_under_test() != BackendKind::cuda) GTEST_SKIP() << "of a kernel";
  if (only_compiles()) GTEST_SKIP() << "the fake's kernels do not fail";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto fault = [] {
    const Problem problem = builder().build();
    DeviceMemory workspace(device_under_test(), std::int64_t{16} << 20);
    AttentionConfig config = problem.config;
    config.workspace =
        TensorView(workspace.data(), DType::u8, {workspace.bytes()}, workspace.device());
    Attention attention(problem.spec, config);
    StepTensors tensors(problem);
    attention.plan(problem.plan_input());
    contract::PlanImage image;
    workspace.download(&image, sizeof image);
    // Page ids that lead far out of any allocation, and not so far that a kernel which counts in 32
    // bits comes around to where it started.
    const std::vector<std::int32_t> far(static_cast<std::size_t>(problem.matrix.indices.size()),
                                        1 << 25);
    workspace.upload(far.data(), static_cast<std::int64_t>(far.size() * 4), image.pages_offset);
    try {
      attention.run(tensors.args(problem, nullptr));
      tensors.output(problem);
    } catch (const Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
      std::_Exit(3);
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(fault(), ::testing::ExitedWithCode(3),
              "one of the last on cuda:0: trencadis_attention of cuda_bfloat16_d64");
}

}  // namespace
}  // namespace trencadis::testing
