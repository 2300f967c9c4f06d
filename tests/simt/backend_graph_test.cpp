// Graphs: run() captured once and replayed after each plan(), from end to end as in
// backend_test.cpp. Lengths of 100k and more are left to a device.
#include <cmath>

#include "simt/emulated_device.h"
#include "support/compare.h"
#include "support/expect_error.h"
#include "support/split_modes.h"

namespace trencadis::testing {
namespace {

using Batch = std::vector<Lengths>;

constexpr std::int64_t kTokens = 80;
constexpr std::int64_t kPages = 600;

class GraphTest : public EmulatedDevice {
 protected:
  void SetUp() override {
    EmulatedDevice::SetUp();
    if (!IsSkipped()) use(plain_bf16());
  }

  static ProblemBuilder builder(Batch batch) {
    ProblemBuilder b;
    b.heads(4, 2).dims(64).dtype(DType::bf16).page_size(16).lengths(std::move(batch));
    return b;
  }
  static Problem problem_of(Batch batch, PlanOptions options = {}) {
    Limits limits;
    limits.max_batch = 8;
    limits.max_qo_tokens = kTokens;
    limits.max_pages = kPages - 3;  // the problems' pools have three that nobody owns
    limits.max_kv_tokens = 4000;
    return builder(std::move(batch)).causal().limits(limits).plan(options).build();
  }

  /// A run of the plan in force.
  FakeCuda::Graph capture(Attention& attention, const RunArgs& args) {
    fake().begin_capture(stream());
    attention.run(args);
    const FakeCuda::Graph graph = fake().end_capture(stream());
    EXPECT_NE(graph, nullptr) << "run() did what a graph cannot hold";
    return graph;
  }
};

/// An Attention and the tensors of its graph, captured with one step and replayed with others.
struct Loop {
  Loop(const Problem& first, void* on_stream)
      : attention(first.spec, cuda_config(first)),
        tensors(first, kTokens, kPages),
        stream(on_stream) {
    plan(first);
  }
  void plan(const Problem& problem) {
    tensors.load(problem);
    attention.plan(problem.plan_input(), stream);
  }
  RunArgs args(const Problem& problem) { return tensors.args(problem, stream); }

  Attention attention;
  FixedTensors tensors;
  void* stream;
};

TEST_F(GraphTest, E5PaddingIsEmptyAndTheRestAsInABatchOfItsOwn) {
  for (const PlanOptions& options : {PlanOptions{}, unsplit(), invariant()}) {
    const Problem full = problem_of(
        {{1, 90}, {1, 300}, {1, 5}, {1, 64}, {1, 1}, {1, 17}, {1, 700}, {1, 2}}, options);
    Loop loop(full, stream());
    const FakeCuda::Graph graph = capture(loop.attention, loop.args(full));
    fake().replay(graph, stream());
    EXPECT_TRUE(close_to_reference(loop.tensors.output(full), full));

    std::int64_t merges = 0;
    for (const Batch& batch :
         {Batch{{1, 400}, {1, 33}, {1, 900}, {1, 0}, {1, 0}, {1, 0}, {1, 0}, {1, 0}},
          Batch{{1, 0}, {1, 0}, {1, 400}, {1, 0}, {1, 33}, {1, 900}, {1, 0}, {1, 0}},
          Batch{{1, 900}, {20, 0}, {1, 400}, {30, 0}, {4, 33}}}) {
      const Problem padded = problem_of(batch, options);
      loop.plan(padded);
      fake().replay(graph, stream());
      const Output output = loop.tensors.output(padded);
      EXPECT_TRUE(close_to_reference(output, padded));
      for (std::size_t b = 0; b < batch.size(); ++b) {
        if (batch[b].kv > 0) continue;
        const Output padding =
            rows_of(output, padded, padded.qo_indptr[b], padded.qo_indptr[b + 1]);
        for (const double x : padding.out) EXPECT_TRUE(x == 0.0 && !std::signbit(x)) << x;
        for (const double x : padding.lse) EXPECT_EQ(x, -kInf);
      }

      const Problem alone = without_empty_requests(padded);
      Attention eager(alone.spec, cuda_config(alone));
      eager.plan(alone.plan_input(), stream());
      const Output expected = run_on_device(eager, alone, stream());
      EXPECT_TRUE(close_to_reference(expected, alone));
      EXPECT_TRUE(same_bits(rows_with_keys(output, padded), expected));
      merges += eager.current_plan().stats().merges;
    }
    EXPECT_TRUE(merges > 0 || options.split == SplitMode::none || options.batch_invariant)
        << "cuts that could have moved";
  }
}

TEST_F(GraphTest, P3ReplaysThatWaitFindTheirOwnPlans) {
  std::vector<Problem> problems;
  for (int i = 0; i < 4; ++i)
    problems.push_back(problem_of({{1, 50 + 200 * i}, {1 + i, 60}, {1, 3}}));
  Loop loop(problems[0], stream());
  const FakeCuda::Graph graph = capture(loop.attention, loop.args(problems[0]));
  // All steps write the graph's one output, and the last one's is left to see: no other step's plan
  // may have been copied over its own.
  loop.tensors.load(problems[3]);
  fake().hold(stream());
  for (const Problem& problem : problems) {
    loop.attention.plan(problem.plan_input(), stream());
    fake().replay(graph, stream());
  }
  EXPECT_EQ(fake().queued(stream()), 4 * 3) << "a copy, a record and a launch a step";
  fake().release(stream());
  EXPECT_TRUE(close_to_reference(loop.tensors.output(problems[3]), problems[3]));
}

TEST_F(GraphTest, P4RunWithoutLimitsIsAnErrorAtCapture) {
  const Problem problem = builder({{1, 100}, {3, 40}}).build();
  Attention attention(problem.spec, cuda_config(problem));
  attention.plan(problem.plan_input(), stream());
  const Output before = run_on_device(attention, problem, stream());
  const int launched = fake().count("launch");
  FixedTensors tensors(problem);
  fake().begin_capture(stream());
  expect_error(ErrorKind::invalid_argument,
               {"run() was called while its stream is being captured", "limits.max_qo_tokens is 0"},
               [&] { attention.run(tensors.args(problem, stream())); });
  EXPECT_NE(fake().end_capture(stream()), nullptr) << "the capture goes on";
  EXPECT_EQ(fake().count("launch"), launched);
  EXPECT_TRUE(same_bits(run_on_device(attention, problem, stream()), before));
}

TEST_F(GraphTest, P4PlanIsAnErrorAtCapture) {
  for (const bool limits : {false, true}) {
    Problem problem = problem_of({{1, 100}, {3, 40}});
    Problem larger = problem_of({{1, 3000}, {60, 100}, {3, 40}});  // asks for more memory
    if (!limits) problem.config.limits = larger.config.limits = {};
    Attention attention(problem.spec, cuda_config(problem));
    attention.plan(problem.plan_input(), stream());
    const Output before = run_on_device(attention, problem, stream());
    const int launched = fake().count("launch");
    fake().begin_capture(stream());
    expect_error(ErrorKind::invalid_argument,
                 {"plan() was called while its stream is being captured"},
                 [&] { attention.plan(larger.plan_input(), stream()); });
    EXPECT_NE(fake().end_capture(stream()), nullptr) << "the capture goes on";
    EXPECT_EQ(fake().count("launch"), launched);
    EXPECT_TRUE(same_bits(run_on_device(attention, problem, stream()), before))
        << "the plan before is in force";
  }
}

TEST_F(GraphTest, P5OverADirtyWorkspace) {
  const Problem problem = problem_of({{1, 700}, {9, 40}, {1, 0}}, unsplit());
  const Problem larger = problem_of({{1, 1500}, {70, 300}, {3, 3}, {1, 1}}, unsplit());
  Problem first = problem_of({{1, 1}}, unsplit());
  CallersMemory memory(Attention::workspace_bytes(first.spec, cuda_config(first)), 0xff);
  first.config.workspace = memory.view();
  Loop loop(first, stream());
  const FakeCuda::Graph graph = capture(loop.attention, loop.args(first));
  for (const Problem* step : {&problem, &larger, &problem}) {
    loop.plan(*step);
    fake().replay(graph, stream());
    EXPECT_TRUE(close_to_reference(loop.tensors.output(*step), *step));
  }
  EXPECT_TRUE(memory.guards_are_intact());
}

TEST_F(GraphTest, P6ReplayedWithOtherQueriesAndLengths) {
  const Problem captured = problem_of({{1, 40}, {1, 1}, {1, 300}, {1, 16}});
  Loop loop(captured, stream());
  const FakeCuda::Graph graph = capture(loop.attention, loop.args(captured));
  const std::vector<Batch> steps{{{64, 64}, {1, 2500}, {7, 1}, {0, 20}},
                                 {{18, 18}, {18, 400}, {18, 17}, {18, 1000}},
                                 {{0, 1}, {0, 3000}, {0, 0}, {72, 90}},
                                 {{0, 0}, {0, 0}, {0, 0}, {0, 0}},
                                 {{1, 40}, {1, 1}, {1, 300}, {1, 16}}};
  for (const Batch& step : steps) {
    const Problem problem = problem_of(step);
    loop.plan(problem);
    launches.clear();
    fake().replay(graph, stream());
    EXPECT_EQ(launches.size(), 1u);
    EXPECT_TRUE(close_to_reference(loop.tensors.output(problem), problem));
  }
}

TEST_F(GraphTest, P6ByThePortableTemplate) {
  use(plain_bf16(KernelTemplate::portable));
  const Problem captured = problem_of({{1, 40}, {1, 1}, {1, 300}, {1, 16}});
  Loop loop(captured, stream());
  const FakeCuda::Graph graph = capture(loop.attention, loop.args(captured));
  for (const Batch& step : {Batch{{64, 64}, {1, 2500}, {7, 1}, {0, 20}}, Batch{{1, 40}, {1, 1}}}) {
    const Problem problem = problem_of(step);
    loop.plan(problem);
    fake().replay(graph, stream());
    EXPECT_TRUE(close_to_reference(loop.tensors.output(problem), problem));
  }
}

TEST_F(GraphTest, P6CapturedAtOneKeyReplayedAtThousandsAndBack) {
  const Problem one = problem_of({{1, 1}});
  Loop loop(one, stream());
  const FakeCuda::Graph graph = capture(loop.attention, loop.args(one));
  for (const std::int64_t keys : {1, 2000, 1, 4000, 3}) {  // 200k is for a device
    const Problem problem = problem_of({{1, keys}});
    loop.plan(problem);
    fake().replay(graph, stream());
    EXPECT_TRUE(close_to_reference(loop.tensors.output(problem), problem)) << keys;
  }
}

TEST_F(GraphTest, P7BeyondTheLimitsTheGraphsPlanIsUntouched) {
  const Problem within = problem_of({{1, 60}, {3, 200}});
  Loop loop(within, stream());
  const FakeCuda::Graph graph = capture(loop.attention, loop.args(within));
  fake().replay(graph, stream());
  const Output before = loop.tensors.output(within);
  EXPECT_TRUE(close_to_reference(before, within));
  const auto refuse = [&](const char* limit, Batch batch) {
    const Problem beyond = problem_of(std::move(batch));
    expect_error(ErrorKind::out_of_capacity, {limit},
                 [&] { loop.attention.plan(beyond.plan_input(), stream()); });
    loop.tensors.load(within);
    fake().replay(graph, stream());
    EXPECT_TRUE(same_bits(loop.tensors.output(within), before)) << limit;
  };
  refuse("limits.max_batch is 8", Batch(9, {1, 1}));
  refuse("limits.max_qo_tokens is 80", {{81, 100}});
  refuse("limits.max_pages is 597", {{1, 3900}, {1, 3900}, {1, 3900}});
  refuse("limits.max_kv_tokens is 4000", {{1, 4001}});
}

}  // namespace
}  // namespace trencadis::testing
