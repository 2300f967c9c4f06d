// P1, P2, P5, P7: workspaces and limits, plans that do not split, memory that is not clean.
#include <optional>
#include <random>

#include "failure_cases/case.h"
#include "support/device_mirror.h"
#include "support/scale.h"

namespace trencadis::testing {
namespace {

Limits small_limits() {
  Limits limits;
  limits.max_batch = 24;
  limits.max_qo_tokens = 200;
  limits.max_pages = 400;
  limits.max_kv_tokens = 4000;
  return limits;
}

struct Batch {
  std::vector<std::int32_t> qo_indptr{0}, kv_indptr{0}, kv_indices, kv_lens;
};

Batch random_batch(const Limits& limits, std::mt19937_64& random) {
  const auto up_to = [&](std::int64_t last) {
    return std::uniform_int_distribution<std::int64_t>(0, std::max<std::int64_t>(0, last))(random);
  };
  Batch batch;
  std::int64_t tokens = limits.max_qo_tokens, pages = limits.max_pages;
  const bool decode = up_to(1) == 0;
  for (std::int64_t b = up_to(limits.max_batch); b > 0; --b) {
    const std::int64_t q = std::min(tokens, decode ? 1 : up_to(up_to(1) == 0 ? tokens : 20));
    const std::int64_t kv = std::min(pages * 16, up_to(up_to(1) == 0 ? limits.max_kv_tokens : 100));
    tokens -= q;
    pages -= (kv + 15) / 16;
    batch.qo_indptr.push_back(batch.qo_indptr.back() + static_cast<std::int32_t>(q));
    batch.kv_indptr.push_back(batch.kv_indptr.back() + static_cast<std::int32_t>((kv + 15) / 16));
    batch.kv_lens.push_back(static_cast<std::int32_t>(kv));
  }
  for (std::int32_t page = 0; page < batch.kv_indptr.back(); ++page) {
    batch.kv_indices.push_back(page);
  }
  return batch;
}

/// Memory of the backend under test, aligned as an engine allocates it.
class Bytes {
 public:
  explicit Bytes(std::int64_t size, std::uint8_t value = 0)
      : storage_(static_cast<std::size_t>(size) + kAlignment, value), size_(size) {
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    const std::size_t skip = (kAlignment - address % kAlignment) % kAlignment;
    view_ = TensorView(storage_.data() + skip, DType::u8, {size});
    if (backend_under_test() == BackendKind::cuda) view_ = mirror_.emplace(view_).view();
  }
  TensorView view(std::int64_t less = 0) const { return view_.slice(0, 0, size_ - less); }

 private:
  static constexpr std::size_t kAlignment = 256;
  std::vector<std::uint8_t> storage_;
  std::int64_t size_;
  TensorView view_;
  std::optional<DeviceMirror> mirror_;
};

TEST(FailureCases, P1TheWorkspaceBoundSufficesAndIsExact) {
  AttentionSpec spec;
  AttentionConfig config;
  config.heads = {8, 2};
  config.backend = backend_under_test();
  config.limits = small_limits();
  std::mt19937_64 random(1);
  for (const PlanOptions& options : {PlanOptions{}, unsplit(), split_every(128)}) {
    config.plan = options;
    config.workspace = {};
    const std::int64_t bytes = Attention::workspace_bytes(spec, config);
    Bytes memory(bytes);
    config.workspace = memory.view(1);
    expect_error(ErrorKind::out_of_capacity,
                 {std::to_string(bytes) + " bytes", std::to_string(bytes - 1)},
                 [&] { Attention(spec, config); });
    config.workspace = memory.view();
    Attention attention(spec, config);
    for (int round = 0; round < scaled(10'000) / 3; ++round) {
      const Batch batch = random_batch(config.limits, random);
      ASSERT_NO_THROW(
          attention.plan(batch.qo_indptr, batch.kv_indptr, batch.kv_indices, batch.kv_lens));
    }
  }
}

TEST(FailureCases, P2UnsplitRequestsEqualTheirSoloRuns) {
  const std::vector<std::int64_t> pages{1, 200, 3, 500};
  const auto build = [](std::vector<Lengths> lengths) {
    return ProblemBuilder()
        .heads(4, 2)
        .dims(64)
        .lengths(std::move(lengths))
        .plan(unsplit())
        .dtype(DType::f32)
        .build();
  };
  std::vector<Lengths> lengths;
  for (const std::int64_t count : pages) lengths.push_back({1, count * 16 - 3});
  const Problem batch = build(lengths);
  Attention attention = planned(batch);
  EXPECT_EQ(attention.current_plan().stats().partial_slots, 0);
  const Output together = run(attention, batch);
  for (std::size_t b = 0; b < pages.size(); ++b) {
    Problem solo = build({lengths[b]});
    // The same tokens: the batch's pool, read through the request's own pages.
    const auto first = batch.matrix.indices.begin();
    solo.matrix.indices.assign(first + batch.matrix.indptr[b], first + batch.matrix.indptr[b + 1]);
    solo.q = batch.q.slice(0, static_cast<std::int64_t>(b), static_cast<std::int64_t>(b) + 1);
    solo.k = batch.k;
    solo.v = batch.v;
    const auto row = static_cast<std::int64_t>(b);
    EXPECT_TRUE(same_bits(rows_of(together, batch, row, row + 1), run_engine(solo)))
        << "request " << b;
  }
}

TEST(FailureCases, P5ADirtyWorkspaceChangesNothing) {
  const auto build = [](std::vector<Lengths> lengths, PlanOptions options) {
    Limits limits = small_limits();
    return ProblemBuilder()
        .heads(8, 2)
        .dims(64)
        .lengths(std::move(lengths))
        .causal()
        .plan(options)
        .limits(limits)
        .build();
  };
  for (const PlanOptions& options : {unsplit(), PlanOptions{}, split_every(128)}) {
    Problem problem = build({{1, 700}, {9, 40}, {1, 0}}, options);
    const Problem larger = build({{1, 3000}, {100, 900}, {3, 3}, {1, 1}}, options);
    Bytes memory(Attention::workspace_bytes(problem.spec, problem.config), 0xff);
    problem.config.workspace = memory.view();
    Attention attention = planned(problem);
    const Output first = run(attention, problem);
    EXPECT_TRUE(close_to_reference(first, problem)) << "over bytes of 0xff";
    attention.plan(larger.plan_input());
    EXPECT_TRUE(close_to_reference(run(attention, larger), larger));
    attention.plan(problem.plan_input());
    EXPECT_TRUE(same_bits(run(attention, problem), first)) << "over the last larger plan";
  }
}

TEST(FailureCases, P7BeyondTheLimitsThePlanIsUntouched) {
  Limits limits;
  limits.max_batch = 2;
  limits.max_qo_tokens = 8;
  limits.max_pages = 10;
  limits.max_kv_tokens = 100;
  const auto build = [&](std::vector<Lengths> lengths) {
    return ProblemBuilder().heads(4, 2).dims(64).lengths(std::move(lengths)).limits(limits).build();
  };
  const Problem within = build({{1, 60}, {3, 20}});
  Attention attention = planned(within);
  const Output before = run(attention, within);
  const auto refuse = [&](const char* limit, const Problem& beyond) {
    expect_error(ErrorKind::out_of_capacity, {limit}, [&] { attention.plan(beyond.plan_input()); });
    EXPECT_TRUE(same_bits(run(attention, within), before));
  };
  refuse("limits.max_batch is 2", build({{1, 1}, {1, 1}, {1, 1}}));
  refuse("limits.max_qo_tokens is 8", build({{9, 20}}));
  refuse("limits.max_pages is 10", build({{1, 90}, {1, 90}}));
  refuse("limits.max_kv_tokens is 100", build({{1, 101}}));
}

}  // namespace
}  // namespace trencadis::testing
