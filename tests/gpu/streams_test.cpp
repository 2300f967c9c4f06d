// Steps that wait in streams while the host goes on, and several Attention objects side by side.
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "backends/cuda/plan_ring.h"
#include "gpu/step_tensors.h"
#include "support/compare.h"

namespace trencadis::testing {
namespace {

Problem step_of(std::vector<Lengths> lengths, DType dtype = DType::bf16, bool limited = true) {
  Limits limits;
  limits.max_batch = 8;
  limits.max_qo_tokens = 150;
  limits.max_pages = 400;
  limits.max_kv_tokens = 5000;
  ProblemBuilder builder;
  builder.heads(4, 2).dims(64).dtype(dtype).page_size(16).causal().lengths(std::move(lengths));
  if (limited) builder.limits(limits);
  return builder.build();
}

/// Problems that come again and again, and what an Attention of its own makes of each.
struct Steps {
  explicit Steps(DType dtype, bool limited = true) {
    for (int i = 0; i < 6; ++i) {
      problems.push_back(step_of({{1, 20 + 700 * i}, {1 + 7 * i, 90}, {1, 3}}, dtype, limited));
      expected.push_back(run_engine(problems.back()));
      EXPECT_TRUE(close_to_reference(expected.back(), problems.back())) << i;
    }
  }
  std::size_t kind(std::size_t step) const { return step % problems.size(); }

  std::vector<Problem> problems;
  std::vector<Output> expected;
};

/// An Attention that is given steps on a stream, each with tensors of its own.
class Worker {
 public:
  explicit Worker(const Steps& steps, std::size_t count)
      : steps_(steps),
        stream_(device_under_test()),
        attention_(steps.problems[0].spec, steps.problems[0].config) {
    for (std::size_t i = 0; i < count; ++i)
      tensors_.push_back(std::make_unique<StepTensors>(steps.problems[steps.kind(i)]));
  }

  DeviceStream& stream() { return stream_; }
  void queue(std::size_t step) {
    const Problem& problem = steps_.problems[steps_.kind(step)];
    attention_.plan(problem.plan_input(), stream_.handle());
    attention_.run(tensors_[step]->args(problem, stream_.handle()));
  }
  void queue_all() {
    for (std::size_t i = 0; i < tensors_.size(); ++i) queue(i);
  }
  void expect_right() {
    stream_.synchronize();
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const std::size_t kind = steps_.kind(i);
      ASSERT_TRUE(same_bits(tensors_[i]->output(steps_.problems[kind]), steps_.expected[kind]))
          << "step " << i << " of " << tensors_.size();
    }
  }

 private:
  const Steps& steps_;
  DeviceStream stream_;
  Attention attention_;
  std::vector<std::unique_ptr<StepTensors>> tensors_;
};

TEST(GpuStreams, P3PlansThatWaitBehind50MillisecondsKeepTheirOwnBytes) {
  for (const bool limited : {true, false}) {
    const Steps steps(DType::bf16, limited);
    Blocker blocker(steps.problems[0].spec);
    for (const std::size_t count :
         {std::size_t{2}, std::size_t{64}, cuda::PlanRing::kMaxSlots + 10}) {
      Worker worker(steps, count);
      blocker.block(worker.stream(), 50);
      worker.queue_all();
      worker.expect_right();
    }
  }
}

TEST(GpuStreams, TwoAttentionsOnTwoStreams) {
  for (const DType other : {DType::bf16, DType::f16}) {  // of one spec, and of two
    const Steps first_steps(DType::bf16), second_steps(other);
    constexpr std::size_t kCount = 40;
    Worker first(first_steps, kCount), second(second_steps, kCount);
    Blocker blocker(first_steps.problems[0].spec);
    blocker.block(first.stream(), 5);
    for (std::size_t i = 0; i < kCount; ++i) {
      first.queue(i);
      second.queue(i);
    }
    second.expect_right();
    first.expect_right();
  }
}

TEST(GpuStreams, TwoThreadsEachWithAnAttentionOfItsOwn) {
  const Steps steps(DType::bf16);
  constexpr std::size_t kCount = 40;
  Worker first(steps, kCount), second(steps, kCount);
  std::thread other([&] { second.queue_all(); });
  first.queue_all();
  other.join();
  first.expect_right();
  second.expect_right();
}

// Two objects that are given the same workspace would overwrite each other; those that own theirs
// may run one plan each on one stream, in any order.
TEST(GpuStreams, TwoAttentionsTakeTurnsOnOneStream) {
  const Steps steps(DType::bf16);
  const Problem &a = steps.problems[1], &b = steps.problems[5];
  DeviceStream stream(device_under_test());
  Attention first(a.spec, a.config), second(b.spec, b.config);
  first.plan(a.plan_input(), stream.handle());
  second.plan(b.plan_input(), stream.handle());
  std::vector<std::unique_ptr<StepTensors>> of_a, of_b;
  for (int layer = 0; layer < 4; ++layer) {
    of_a.push_back(std::make_unique<StepTensors>(a));
    of_b.push_back(std::make_unique<StepTensors>(b));
    first.run(of_a.back()->args(a, stream.handle()));
    second.run(of_b.back()->args(b, stream.handle()));
  }
  stream.synchronize();
  for (std::size_t layer = 0; layer < of_a.size(); ++layer) {
    EXPECT_TRUE(same_bits(of_a[layer]->output(a), steps.expected[1])) << layer;
    EXPECT_TRUE(same_bits(of_b[layer]->output(b), steps.expected[5])) << layer;
  }
}

}  // namespace
}  // namespace trencadis::testing
