// A serving loop: thousands of replays of one graph, each with a plan of its own, while the host
// runs ahead as far as the ring of plans lets it.
#include <gtest/gtest.h>
#include <trencadis/composition.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "gpu/device_tensor.h"
#include "support/backend_under_test.h"
#include "support/compare.h"
#include "support/scale.h"

namespace trencadis::testing {
namespace {

constexpr std::int64_t kBatch = 8, kMaxQueries = 5, kMaxKeys = 640, kPageSize = 16;
constexpr std::int64_t kTokens = kBatch * kMaxQueries;

Problem whole_pool() {
  Limits limits;
  limits.max_batch = kBatch;
  limits.max_qo_tokens = kTokens;
  limits.max_pages = kBatch * kMaxKeys / kPageSize;
  limits.max_kv_tokens = kMaxKeys;
  // Sums of outputs stay exact enough in float32 for one wrong step to show.
  return ProblemBuilder()
      .heads(4, 2)
      .dims(64)
      .dtypes(DType::bf16, DType::bf16, DType::f32)
      .causal()
      .lengths(std::vector<Lengths>(kBatch, {kMaxQueries, kMaxKeys}))
      .page_size(kPageSize)
      .limits(limits)
      .build();
}

/// Lengths of a step, whose requests own the first of the pages that they have in the whole pool.
struct Step {
  Step(const Problem& whole, std::mt19937& random) {
    for (std::size_t b = 0; b < kBatch; ++b) {
      const std::int64_t keys = random() % 8 == 0 ? 0 : random() % (kMaxKeys + 1);
      constexpr std::array<std::int64_t, 8> kQueries{1, 1, 1, 1, 1, 0, 2, kMaxQueries};
      lengths.push_back({kQueries[random() % kQueries.size()], keys});
      const auto first = whole.matrix.indices.begin() + whole.matrix.indptr[b];
      indices.insert(indices.end(), first, first + (keys + kPageSize - 1) / kPageSize);
      qo_indptr.push_back(qo_indptr.back() + static_cast<std::int32_t>(lengths.back().q));
      kv_indptr.push_back(static_cast<std::int32_t>(indices.size()));
      kv_lens.push_back(static_cast<std::int32_t>(keys));
    }
  }
  std::vector<Lengths> lengths;
  std::vector<std::int32_t> qo_indptr{0}, kv_indptr{0}, indices, kv_lens;
};

/// One of the two that must agree: outputs of the last step, and the merge of those of all steps.
class Runner {
 public:
  Runner(const Problem& whole, const DeviceTensor& q, const DeviceTensor& pool)
      : whole_(whole),
        q_(q),
        pool_(pool),
        attention_(whole.spec, whole.config),
        host_out_(DType::f32, {kTokens, 4, 64}, 0.0),
        host_lse_(DType::f32, {kTokens, 4}, -kInf),
        out_(host_out_.whole()),
        lse_(host_lse_.whole()),
        sum_(host_out_.whole()),
        sum_lse_(host_lse_.whole()) {}

  void plan(const Step& step, void* stream) {
    attention_.plan(step.qo_indptr, step.kv_indptr, step.indices, step.kv_lens, stream);
    tokens_ = step.qo_indptr.back();
  }
  /// What a graph captures: a run, and the sum of all. Rows that are not the step's keep what an
  /// earlier step has left there.
  void run(void* stream) const {
    RunArgs args;
    args.q = q_.place_of(whole_.q).slice(0, 0, tokens_);
    args.k = pool_.place_of(whole_.k);
    args.v = pool_.place_of(whole_.v);
    args.out = out_.view().slice(0, 0, tokens_);
    args.lse = lse_.view().slice(0, 0, tokens_);
    args.stream = stream;
    attention_.run(args);
    merge_states(sum_.view(), sum_lse_.view(), out_.view(), lse_.view(), sum_.view(),
                 sum_lse_.view(), {.stream = stream});
  }

  /// Of every row, also those of earlier steps. The device is idle.
  Output last() const { return fetched(out_, lse_); }
  Output sum() const { return fetched(sum_, sum_lse_); }

 private:
  /// All four tensors have the shapes, and so the host memory, of two.
  Output fetched(const DeviceTensor& out, const DeviceTensor& lse) const {
    out.fetch();
    lse.fetch();
    return {to_doubles(host_out_.whole()), to_doubles(host_lse_.whole())};
  }

  const Problem& whole_;
  const DeviceTensor &q_, &pool_;
  mutable Attention attention_;
  HostTensor host_out_, host_lse_;
  DeviceTensor out_, lse_, sum_, sum_lse_;
  std::int64_t tokens_ = 0;
};

::testing::AssertionResult step_is_right(const Output& last, const Step& step,
                                         const Problem& whole) {
  ProblemBuilder builder;
  builder.heads(4, 2).dims(64).dtypes(DType::bf16, DType::bf16, DType::f32).causal();
  builder.lengths(step.lengths);
  builder.matrix(from_page_table(step.kv_indptr, step.indices, step.kv_lens, kPageSize));
  Problem problem = builder.build();
  problem.q = whole.q.slice(0, 0, problem.nnz_q());
  problem.k = whole.k;
  problem.v = whole.v;
  return close_to_reference(rows_of(last, problem, 0, problem.nnz_q()), problem);
}

TEST(GpuSoak, ReplaysAreEagerRunsOfTheSamePlans) {
  const bool device = backend_under_test() == BackendKind::cuda;
  const int steps = device ? scaled(10'000) : 300;
  const Problem whole = whole_pool();
  const DeviceTensor q(whole.q_storage.whole()), pool(whole.k_storage.whole());
  Runner graphed(whole, q, pool), eager(whole, q, pool);
  DeviceStream stream(device_under_test());
  std::mt19937 random(1);
  graphed.plan(Step(whole, random), stream.handle());
  const DeviceGraph graph(stream, [&] { graphed.run(stream.handle()); });
  int since = 0;
  for (int i = 0; i < steps; ++i) {
    const Step step(whole, random);
    graphed.plan(step, stream.handle());
    graph.launch(stream);
    eager.plan(step, stream.handle());
    eager.run(stream.handle());
    // Later the host comes to run ahead of the device by more plans than the ring holds.
    if (++since < (i < steps / 2 ? 100 : 250) && i + 1 < steps) continue;
    since = 0;
    stream.synchronize();
    const Output last = graphed.last();
    ASSERT_TRUE(same_bits(last, eager.last())) << "step " << i;
    ASSERT_TRUE(same_bits(graphed.sum(), eager.sum())) << "one of the steps before " << i;
    if (i % 2000 >= 250) continue;
    ASSERT_TRUE(step_is_right(last, step, whole)) << "step " << i;
  }
}

}  // namespace
}  // namespace trencadis::testing
