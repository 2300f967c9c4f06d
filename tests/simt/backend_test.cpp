// The CUDA backend from end to end on the host: Attention over the fake driver, its launches
// emulated. Eager runs, workspaces, what waits in a stream, what fails; graphs are in
// backend_graph_test.cpp. Lengths that take a device to run are the device's tests' own.
#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "backends/cuda/plan_ring.h"
#include "backends/cuda/resources.h"
#include "simt/emulated_device.h"
#include "support/compare.h"
#include "support/expect_error.h"

namespace trencadis::testing {
namespace {

using Batch = std::vector<Lengths>;

const Batch kDecode{{1, 900}, {1, 1}, {1, 64}, {1, 0}, {1, 129}};
const Batch kPrefill{{90, 90}, {0, 5}, {33, 200}, {7, 7}};
const Batch kMixed{{1, 300}, {20, 64}, {1, 0}, {40, 41}, {3, 2}, {1, 1}};

ProblemBuilder builder(const EmulatedKernel& kernel) {
  ProblemBuilder b;
  b.heads(4, 2).dims(kernel.spec.head_dim_qk, kernel.spec.vo()).dtype(kernel.spec.dtype_kv);
  b.page_size(16).variant(kernel.spec.variant);
  return b;
}

class BackendTest : public EmulatedDevice {
 protected:
  /// One Attention, whose workspace grows, or not, from step to step.
  void expect_right(const EmulatedKernel& kernel) {
    use(kernel);
    const Problem first = builder(kernel).lengths(kMixed).build();
    Attention attention(first.spec, cuda_config(first));
    EXPECT_EQ(attention.backend(), BackendKind::cuda);
    for (const Batch& batch : {kMixed, kDecode, kPrefill, Batch{}, kMixed}) {
      const Problem problem = builder(kernel).lengths(batch).build();
      attention.plan(problem.plan_input(), stream());
      EXPECT_TRUE(close_to_reference(run_on_device(attention, problem, stream()), problem));
    }
  }

  Output result(Attention& attention, const Problem& problem) {
    attention.plan(problem.plan_input(), stream());
    return run_on_device(attention, problem, stream());
  }
};

Problem within_limits(Batch batch, PlanOptions options = {}) {
  Limits limits;
  limits.max_batch = 8;
  limits.max_qo_tokens = 150;
  limits.max_pages = 200;
  limits.max_kv_tokens = 2000;
  return builder(plain_bf16())
      .lengths(std::move(batch))
      .causal()
      .limits(limits)
      .plan(options)
      .build();
}

TEST_F(BackendTest, A1PoolsBeyondTheReachOfTheHopperTemplateAreRefused) {
  use(plain_bf16());
  const Problem problem = builder(plain_bf16()).lengths({{1, 300}, {20, 64}}).build();
  Attention attention(problem.spec, cuda_config(problem));
  attention.plan(problem.plan_input(), stream());
  FixedTensors tensors(problem);
  RunArgs args = tensors.args(problem, stream());
  std::vector<std::int64_t> strides(args.k.strides().begin(), args.k.strides().end());
  strides[0] = (std::int64_t{1} << 33) + 8;  // multiples of 8: 2^30 units from page to page
  args.k = TensorView(args.k.data(), args.k.dtype(), args.k.shape(), strides, args.k.device());
  const int launched = fake().count("launch");
  expect_error(ErrorKind::not_supported,
               {"k has pages 8589934600 elements apart", "2^31 units of 8 elements",
                "TRENCADIS_CUDA_TEMPLATE=portable"},
               [&] { attention.run(args); });
  EXPECT_EQ(fake().count("launch"), launched);
}

TEST_F(BackendTest, DecodePrefillAndMixed) {
  expect_right(plain_bf16());
}
TEST_F(BackendTest, DecodePrefillAndMixedOfAVariantWithSinks) {
  expect_right(soft_capped_f16());
}
TEST_F(BackendTest, DecodePrefillAndMixedByThePortableTemplate) {
  expect_right(plain_bf16(KernelTemplate::portable));
  expect_right(soft_capped_f16(KernelTemplate::portable));
}
TEST_F(BackendTest, DecodePrefillAndMixedOfFloat32) {
  expect_right(plain_f32());
}

TEST_F(BackendTest, WorkIsSplitAndMergedInOneLaunchOfTheGridOfTheDevice) {
  const struct {
    KernelTemplate of;
    unsigned grid, block;
  } cases[] = {{KernelTemplate::hopper, 4, 384},     // four multiprocessors of one CTA
               {KernelTemplate::portable, 8, 128}};  // of two
  for (const auto& [of, grid, block] : cases) {
    const EmulatedKernel kernel = plain_bf16(of);
    use(kernel);
    const Problem problem = builder(kernel).lengths(kDecode).build();
    Attention attention(problem.spec, cuda_config(problem));
    EXPECT_TRUE(close_to_reference(result(attention, problem), problem));
    EXPECT_GT(attention.current_plan().stats().merges, 0);
    ASSERT_EQ(launches.size(), 1u);
    EXPECT_EQ(launches[0].function, "trencadis_attention");
    EXPECT_EQ(launches[0].grid, grid);
    EXPECT_EQ(launches[0].block, block);
    EXPECT_EQ(static_cast<int>(launches[0].shared_bytes), kernel.shared_bytes);
  }
}

TEST_F(BackendTest, P1TheWorkspaceBoundIsEnoughAndOneByteLessIsNot) {
  use(plain_bf16());
  Problem problem = within_limits(kMixed);
  AttentionConfig config = cuda_config(problem);
  const std::int64_t bytes = Attention::workspace_bytes(problem.spec, config);
  CallersMemory memory(bytes);
  config.workspace = memory.view(1);
  expect_error(ErrorKind::out_of_capacity,
               {std::to_string(bytes) + " bytes", std::to_string(bytes - 1)},
               [&] { Attention(problem.spec, config); });
  config.workspace = memory.view();
  {
    Attention attention(problem.spec, config);
    EXPECT_EQ(fake().count("device buffer"), 0) << "the caller's is used";
    for (const Batch& batch : {kMixed, kPrefill, kDecode}) {
      const Problem next = within_limits(batch);
      EXPECT_TRUE(close_to_reference(result(attention, next), next));
    }
  }
  EXPECT_TRUE(memory.guards_are_intact());

  // A table that is longer than all the rest of its plan.
  Limits limits;
  limits.max_batch = limits.max_qo_tokens = 1;
  limits.max_pages = 2000;
  const Problem pages =
      builder(plain_bf16()).page_size(1).lengths({{1, 2000}}).limits(limits).build();
  Attention of_many_pages(pages.spec, cuda_config(pages));
  EXPECT_TRUE(close_to_reference(result(of_many_pages, pages), pages));

  config.workspace = TensorView(memory.view().data(), DType::u8, {bytes});  // said to be the host's
  expect_error(ErrorKind::type_mismatch, {"workspace", "cuda:0"},
               [&] { Attention(problem.spec, config); });
}

TEST_F(BackendTest, P3PlansThatWaitInAStreamKeepTheirOwnBytes) {
  use(plain_bf16());
  constexpr int kKinds = 6;
  std::vector<Problem> problems;
  for (int i = 0; i < kKinds; ++i)
    problems.push_back(within_limits({{1, 20 + 70 * i}, {1 + i, 40}, {1, 3}}));
  for (const bool limits : {true, false}) {
    AttentionConfig config = cuda_config(problems[0]);
    if (!limits) config.limits = {};
    std::vector<Output> eager;
    for (const Problem& problem : problems) {
      Attention alone(problem.spec, config);
      eager.push_back(result(alone, problem));
      EXPECT_TRUE(close_to_reference(eager.back(), problem));
    }
    for (const std::size_t steps :
         {std::size_t{2}, std::size_t{64}, cuda::PlanRing::kMaxSlots + 10}) {
      Attention attention(problems[0].spec, config);
      std::vector<std::unique_ptr<FixedTensors>> tensors;
      fake().hold(stream());
      for (std::size_t i = 0; i < steps; ++i) {
        const Problem& problem = problems[i % kKinds];
        tensors.push_back(std::make_unique<FixedTensors>(problem));
        attention.plan(problem.plan_input(), stream());
        attention.run(tensors.back()->args(problem, stream()));
      }
      // A step is a copy, a record and a launch. The ring waits for the oldest when it is full;
      // memory that grows waits for all.
      if (limits) {
        const std::size_t done = steps - std::min(steps, cuda::PlanRing::kMaxSlots);
        EXPECT_GE(fake().queued(stream()), static_cast<int>(3 * (steps - done) - 2)) << steps;
      }
      fake().release(stream());
      for (std::size_t i = 0; i < steps; ++i) {
        ASSERT_TRUE(same_bits(tensors[i]->output(problems[i % kKinds]), eager[i % kKinds]))
            << "step " << i << " of " << steps;
      }
    }
  }
}

TEST_F(BackendTest, P5ADirtyWorkspaceChangesNothing) {
  use(plain_bf16());
  PlanOptions unsplit;
  unsplit.split = SplitMode::none;
  for (const PlanOptions& options : {unsplit, PlanOptions{}}) {
    const Problem problem = within_limits({{1, 700}, {9, 40}, {1, 0}}, options);
    const Problem larger = within_limits({{1, 1500}, {100, 300}, {3, 3}, {1, 1}}, options);
    AttentionConfig config = cuda_config(problem);
    CallersMemory memory(Attention::workspace_bytes(problem.spec, config), 0xff);
    config.workspace = memory.view();
    Attention attention(problem.spec, config);
    const Output first = result(attention, problem);
    EXPECT_TRUE(close_to_reference(first, problem)) << "over bytes of 0xff";
    EXPECT_TRUE(close_to_reference(result(attention, larger), larger));
    EXPECT_TRUE(same_bits(result(attention, problem), first)) << "over the last larger plan";
  }
}

TEST_F(BackendTest, AWarmStepAllocatesNothingAndItsArgumentsAreTheLastOnes) {
  use(plain_bf16());
  const Problem small = within_limits({{1, 30}, {1, 4}});
  const Problem large = within_limits(kMixed);
  Attention attention(small.spec, cuda_config(small));
  FixedTensors tensors(large);
  const auto step = [&](const Problem& problem) {
    tensors.load(problem);
    attention.plan(problem.plan_input(), stream());
    attention.run(tensors.args(problem, stream()));
  };
  const auto allocations = [&] {
    return fake().count("cuMemAlloc_v2") + fake().count("cuMemHostAlloc") +
           fake().count("cuEventCreate") + fake().count("cuModuleLoadData");
  };
  step(large);
  const int warm = allocations(), launched = fake().count("launch");
  launches.clear();
  for (int i = 0; i < 3; ++i)
    for (const Problem* problem : {&small, &large}) step(*problem);
  EXPECT_EQ(allocations(), warm);
  EXPECT_EQ(fake().count("launch"), launched + 6);
  for (std::size_t i = 1; i < launches.size(); ++i)
    EXPECT_EQ(launches[i], launches[i - 1]) << "a graph could not be replayed";
}

TEST_F(BackendTest, AWarmStepCallsTheDriverForLittle) {
  use(plain_bf16());
  const Problem problem = within_limits(kMixed);
  const cuda::ContextPointer context = cuda::PrimaryContext::retain(cuda::driver(), 0);
  const cuda::ContextGuard guard(*context);  // as in a program that uses the device by other means
  Attention attention(problem.spec, cuda_config(problem));
  FixedTensors tensors(problem);
  tensors.load(problem);
  const char* const calls[] = {"cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2",   "cuStreamIsCapturing",
                               "cuEventQuery",        "cuMemcpyHtoDAsync_v2", "cuEventRecord",
                               "cuLaunchKernelEx"};
  const auto counts = [&] {
    std::vector<int> so_far;
    for (const char* call : calls) so_far.push_back(fake().count(call));
    return so_far;
  };
  const auto expect_calls = [&](const std::vector<int>& expected, const auto& step) {
    step();
    std::vector<int> more = counts();
    step();
    const std::vector<int> now = counts();
    std::transform(now.begin(), now.end(), more.begin(), more.begin(), std::minus<>());
    EXPECT_EQ(more, expected);
  };
  expect_calls({0, 0, 1, 1, 1, 1, 0}, [&] { attention.plan(problem.plan_input(), stream()); });
  expect_calls({0, 0, 1, 0, 0, 0, 1}, [&] { attention.run(tensors.args(problem, stream())); });
}

TEST_F(BackendTest, ACallThatFailsIsNamedAndTheLastPlanIsInForce) {
  use(plain_bf16());
  const Problem problem = builder(plain_bf16()).lengths({{1, 3}, {3, 4}}).build();
  const Problem larger = builder(plain_bf16()).lengths({{1, 900}, {40, 200}, {90, 90}}).build();
  Attention attention(problem.spec, cuda_config(problem));
  const Output before = result(attention, problem);
  const struct {
    const char* call;
    int status;
    ErrorKind kind;
    const char* text;
  } failures[] = {
      {"cuMemAlloc_v2", 2, ErrorKind::out_of_capacity, "cuMemAlloc failed"},
      {"cuMemHostAlloc", 2, ErrorKind::device, "cuMemHostAlloc failed: CUDA_ERROR_OUT_OF_MEMORY"},
      {"cuMemcpyHtoDAsync_v2", 719, ErrorKind::device, "cuMemcpyHtoDAsync failed"},
      {"cuStreamIsCapturing", 719, ErrorKind::device, "cuStreamIsCapturing failed"},
  };
  for (const auto& [call, status, kind, text] : failures) {
    fake().fail(call, status);
    expect_error(kind, {text}, [&] { attention.plan(larger.plan_input(), stream()); });
    fake().fail(call, 0);
    EXPECT_TRUE(same_bits(run_on_device(attention, problem, stream()), before)) << call;
  }
  EXPECT_TRUE(close_to_reference(result(attention, larger), larger));
}

TEST_F(BackendTest, APlanThatMayBeHalfWrittenIsNotRun) {
  use(plain_bf16());
  const Problem problem = within_limits({{1, 900}, {3, 40}});
  const Problem next = within_limits({{1, 20}, {5, 700}, {1, 1}});
  for (const char* call : {"cuMemcpyHtoDAsync_v2", "cuEventRecord"}) {
    Attention attention(problem.spec, cuda_config(problem));
    EXPECT_TRUE(close_to_reference(result(attention, problem), problem));
    fake().fail(call, 719);
    expect_error(ErrorKind::device, {"failed: CUDA_ERROR_LAUNCH_FAILED", "run() is refused until"},
                 [&] { attention.plan(next.plan_input(), stream()); });
    fake().fail(call, 0);
    const int launched = fake().count("launch");
    FixedTensors tensors(problem);
    expect_error(ErrorKind::device, {"a plan() that failed", "plan() has to succeed first"},
                 [&] { attention.run(tensors.args(problem, stream())); });
    EXPECT_EQ(fake().count("launch"), launched);
    EXPECT_TRUE(close_to_reference(result(attention, next), next));
  }
}

TEST_F(BackendTest, ALaunchThatFailsIsNamedAndTheNextRunIsRight) {
  use(plain_bf16());
  const Problem problem = builder(plain_bf16()).lengths({{1, 900}, {3, 40}}).build();
  Attention attention(problem.spec, cuda_config(problem));
  const Output before = result(attention, problem);
  FixedTensors tensors(problem);
  const auto run = [&] { attention.run(tensors.args(problem, stream())); };
  fake().fail("cuLaunchKernelEx", 719);
  expect_error(ErrorKind::device, {"cuLaunchKernelEx failed: CUDA_ERROR_LAUNCH_FAILED"}, run);
  fake().fail("cuLaunchKernelEx", 0);
  EXPECT_TRUE(same_bits(run_on_device(attention, problem, stream()), before));
}

TEST_F(BackendTest, AKernelThatAsksForTooMuchSharedMemoryIsRefused) {
  use(plain_bf16());
  const Problem problem = builder(plain_bf16()).lengths(kDecode).build();
  fake().set_global("trencadis_shared_bytes", 300'000);
  expect_error(ErrorKind::not_supported, {"300000 bytes of shared memory", "232448"},
               [&] { Attention(problem.spec, cuda_config(problem)); });
}

}  // namespace
}  // namespace trencadis::testing
