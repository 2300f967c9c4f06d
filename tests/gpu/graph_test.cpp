// A captured run() replayed after each plan(): the cases of tests/simt/backend_graph_test.cpp on a
// device, with the lengths that the emulation has no time for.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "backends/cuda/plan_ring.h"
#include "gpu/step_tensors.h"
#include "support/backend_under_test.h"
#include "support/compare.h"
#include "support/expect_error.h"
#include "support/split_modes.h"

namespace trencadis::testing {
namespace {

using Batch = std::vector<Lengths>;

constexpr std::int64_t kTokens = 80;
constexpr std::int64_t kPages = 600;
constexpr std::int64_t kFarKeys = 200'000, kFarPages = 18'000;

ProblemBuilder builder(Batch batch) {
  ProblemBuilder b;
  b.heads(4, 2).dims(64).dtype(DType::bf16).page_size(16).causal().lengths(std::move(batch));
  return b;
}

Limits limits_of(std::int64_t pages, std::int64_t keys) {
  Limits limits;
  limits.max_batch = 8;
  limits.max_qo_tokens = kTokens;
  limits.max_pages = pages - 3;  // the problems' pools have three that nobody owns
  limits.max_kv_tokens = keys;
  return limits;
}

Problem problem_of(Batch batch, PlanOptions options = {}) {
  return builder(std::move(batch)).limits(limits_of(kPages, 4000)).plan(options).build();
}
/// Of one KV head: long contexts take less memory and time.
Problem far_problem_of(Batch batch) {
  return builder(std::move(batch)).heads(4, 1).limits(limits_of(kFarPages, kFarKeys)).build();
}

/// An Attention and the tensors of its graph, captured with one step and replayed with others.
class Loop {
 public:
  explicit Loop(const Problem& first, std::int64_t pages = kPages)
      : stream_(device_under_test()),
        attention_(first.spec, first.config),
        tensors_(first, kTokens, pages) {
    plan(first);
  }

  DeviceStream& stream() { return stream_; }
  Attention& attention() { return attention_; }

  /// The step's tensors and plan are in place. What ran before is done.
  void plan(const Problem& problem) {
    load(problem);
    attention_.plan(problem.plan_input(), stream_.handle());
  }
  void load(const Problem& problem) {
    stream_.synchronize();
    tensors_.load(problem);
    step_ = &problem;
  }
  /// A run of the plan in force. A device keeps the addresses, a CPU runs this again.
  DeviceGraph capture() {
    return DeviceGraph(stream_,
                       [this] { attention_.run(tensors_.args(*step_, stream_.handle())); });
  }
  Output replay(const DeviceGraph& graph) {
    graph.launch(stream_);
    return output();
  }
  /// Of the last replay.
  Output output() {
    stream_.synchronize();
    return tensors_.output(*step_);
  }

 private:
  DeviceStream stream_;
  Attention attention_;
  StepTensors tensors_;
  const Problem* step_ = nullptr;
};

TEST(GpuGraph, E5PaddingIsEmptyAndTheRestAsInABatchOfItsOwn) {
  for (const PlanOptions& options : {PlanOptions{}, unsplit(), invariant()}) {
    const Problem full = problem_of(
        {{1, 90}, {1, 300}, {1, 5}, {1, 64}, {1, 1}, {1, 17}, {1, 700}, {1, 2}}, options);
    Loop loop(full);
    const DeviceGraph graph = loop.capture();
    EXPECT_TRUE(close_to_reference(loop.replay(graph), full));

    const Problem padded =
        problem_of({{1, 400}, {1, 33}, {1, 3900}, {1, 0}, {1, 0}, {1, 0}, {1, 0}, {1, 0}}, options);
    loop.plan(padded);
    const Output output = loop.replay(graph);
    EXPECT_TRUE(close_to_reference(output, padded));
    const Output padding = rows_of(output, padded, 3, 8);
    for (const double x : padding.out) ASSERT_TRUE(x == 0.0 && !std::signbit(x)) << x;
    for (const double x : padding.lse) ASSERT_EQ(x, -kInf);

    const Problem alone = without_empty_requests(padded);
    const Output expected = run_engine(alone);
    EXPECT_TRUE(close_to_reference(expected, alone));
    EXPECT_TRUE(same_bits(rows_of(output, padded, 0, 3), expected));
  }
}

TEST(GpuGraph, P3ReplaysThatWaitFindTheirOwnPlans) {
  std::vector<Problem> problems;
  for (int i = 0; i < 4; ++i)
    problems.push_back(problem_of({{1, 50 + 200 * i}, {1 + i, 60}, {1, 3}}));
  Loop loop(problems[0]);
  const DeviceGraph graph = loop.capture();
  Blocker blocker(problems[0].spec);
  for (const std::size_t steps :
       {std::size_t{4}, std::size_t{64}, cuda::PlanRing::kMaxSlots + 12}) {
    // All steps write the graph's one output, and the last one's is left to see: no other step's
    // plan may have been copied over its own.
    const Problem& last = problems[(steps - 1) % 4];
    loop.load(last);
    blocker.block(loop.stream(), 50);
    for (std::size_t i = 0; i < steps; ++i) {
      const Problem& problem = problems[i % 4];
      loop.attention().plan(problem.plan_input(), loop.stream().handle());
      if (backend_under_test() == BackendKind::cuda || i + 1 == steps) graph.launch(loop.stream());
    }
    EXPECT_TRUE(close_to_reference(loop.output(), last)) << steps;
  }
}

/// Only a device captures: a CPU runs its graphs.
class GpuCapture : public ::testing::Test {
 protected:
  void SetUp() override {
    if (backend_under_test() != BackendKind::cuda) GTEST_SKIP() << "captures are a device's";
  }
};

TEST_F(GpuCapture, P4RunWithoutLimitsIsAnError) {
  const Problem problem = builder({{1, 100}, {3, 40}}).build();
  Attention attention(problem.spec, problem.config);
  attention.plan(problem.plan_input());
  const Output before = run(attention, problem);
  const StepTensors tensors(problem);
  DeviceStream stream(device_under_test());
  expect_error(
      ErrorKind::invalid_argument,
      {"run() was called while its stream is being captured", "limits.max_qo_tokens is 0"},
      [&] { DeviceGraph(stream, [&] { attention.run(tensors.args(problem, stream.handle())); }); });
  EXPECT_TRUE(same_bits(run(attention, problem), before));
}

TEST_F(GpuCapture, P4PlanIsAnError) {
  for (const bool limits : {false, true}) {
    Problem problem = problem_of({{1, 100}, {3, 40}});
    Problem larger = problem_of({{1, 3000}, {60, 100}, {3, 40}});  // asks for more memory
    if (!limits) problem.config.limits = larger.config.limits = {};
    Attention attention(problem.spec, problem.config);
    attention.plan(problem.plan_input());
    const Output before = run(attention, problem);
    DeviceStream stream(device_under_test());
    expect_error(
        ErrorKind::invalid_argument, {"plan() was called while its stream is being captured"}, [&] {
          DeviceGraph(stream, [&] { attention.plan(larger.plan_input(), stream.handle()); });
        });
    EXPECT_TRUE(same_bits(run(attention, problem), before)) << "the plan before is in force";
  }
}

TEST(GpuGraph, P5OverADirtyWorkspace) {
  for (const PlanOptions& options : {unsplit(), PlanOptions{}}) {
    const Problem problem = problem_of({{1, 700}, {9, 40}, {1, 0}}, options);
    const Problem larger = problem_of({{1, 3500}, {70, 300}, {3, 3}, {1, 1}}, options);
    Problem first = problem_of({{1, 1}}, options);
    const GuardedWorkspace workspace(Attention::workspace_bytes(first.spec, first.config));
    first.config.workspace = workspace.view();
    Loop loop(first);
    const DeviceGraph graph = loop.capture();
    std::vector<Output> outputs;
    for (const Problem* step : {&problem, &larger, &problem}) {
      loop.plan(*step);
      outputs.push_back(loop.replay(graph));
      EXPECT_TRUE(close_to_reference(outputs.back(), *step));
    }
    EXPECT_TRUE(same_bits(outputs[0], outputs[2])) << "over the last larger plan";
    EXPECT_TRUE(workspace.guards_are_intact());
  }
}

TEST(GpuGraph, P6ReplayedWithOtherQueriesAndLengths) {
  const Problem captured = far_problem_of({{1, 40}, {1, 1}, {1, 300}, {1, 16}});
  Loop loop(captured, kFarPages);
  const DeviceGraph graph = loop.capture();
  const std::vector<Batch> steps{{{64, 64}, {1, 100'000}, {7, 1}, {0, 20}},
                                 {{18, 18}, {18, 400}, {18, 17}, {18, 20'000}},
                                 {{0, 1}, {0, 3000}, {0, 0}, {72, 5000}},
                                 {{0, 0}, {0, 0}, {0, 0}, {0, 0}},
                                 {{1, 40}, {1, 1}, {1, 300}, {1, 16}}};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Problem problem = far_problem_of(steps[i]);
    loop.plan(problem);
    EXPECT_TRUE(close_to_reference(loop.replay(graph), problem)) << "step " << i;
  }
}

TEST(GpuGraph, P6CapturedAtOneKeyReplayedAt200000AndBack) {
  const Problem one = far_problem_of({{1, 1}});
  Loop loop(one, kFarPages);
  const DeviceGraph graph = loop.capture();
  for (const std::int64_t keys :
       {std::int64_t{1}, std::int64_t{100'000}, std::int64_t{1}, kFarKeys, std::int64_t{3}}) {
    const Problem problem = far_problem_of({{1, keys}});
    loop.plan(problem);
    EXPECT_TRUE(close_to_reference(loop.replay(graph), problem)) << keys;
  }
}

TEST(GpuGraph, P7BeyondTheLimitsTheGraphsPlanIsUntouched) {
  const Problem within = problem_of({{1, 60}, {3, 200}});
  Loop loop(within);
  const DeviceGraph graph = loop.capture();
  const Output before = loop.replay(graph);
  EXPECT_TRUE(close_to_reference(before, within));
  const auto refuse = [&](const char* limit, Batch batch) {
    const Problem beyond = problem_of(std::move(batch));
    expect_error(ErrorKind::out_of_capacity, {limit},
                 [&] { loop.attention().plan(beyond.plan_input(), loop.stream().handle()); });
    loop.load(within);
    EXPECT_TRUE(same_bits(loop.replay(graph), before)) << limit;
  };
  refuse("limits.max_batch is 8", Batch(9, {1, 1}));
  refuse("limits.max_qo_tokens is 80", {{81, 100}});
  refuse("limits.max_pages is 597", {{1, 3900}, {1, 3900}, {1, 3900}});
  refuse("limits.max_kv_tokens is 4000", {{1, 4001}});
}

}  // namespace
}  // namespace trencadis::testing
