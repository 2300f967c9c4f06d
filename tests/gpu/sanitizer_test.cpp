// Small problems through every kernel, for compute-sanitizer, which is fifty times slower than the
// device: tools/compute_sanitizer.sh. Without it these are a few seconds of tests like others.
//
// All that a pool holds is written, NaN where nobody owns it, so that initcheck speaks of what the
// engine itself has not written.
#include <gtest/gtest.h>
#include <trencadis/composition.h>
#include <trencadis/kv_cache.h>

#include <random>
#include <utility>
#include <vector>

#include "gpu/step_tensors.h"
#include "gpu/twin.h"
#include "support/compare.h"

namespace trencadis::testing {
namespace {

PlanOptions split_every(std::int64_t tokens) {
  PlanOptions options;
  options.split = SplitMode::fixed;
  options.fixed_split_tokens = tokens;
  return options;
}

ProblemBuilder builder(int dim, DType dtype = DType::bf16) {
  ProblemBuilder b;
  b.heads(4, 2).dims(dim).dtype(dtype).page_size(16);
  return b;
}

/// Through tensors that end where their allocations do.
void expect_right(const Problem& problem) {
  Attention attention(problem.spec, problem.config);
  DeviceStream stream(device_under_test());
  const StepTensors tensors(problem);
  attention.plan(problem.plan_input(), stream.handle());
  attention.run(tensors.args(problem, stream.handle()));
  stream.synchronize();
  EXPECT_TRUE(close_to_reference(tensors.output(problem), problem));
}

const std::vector<Lengths> kDecode{{1, 300}, {1, 1}, {1, 0}, {1, 65}};
const std::vector<Lengths> kPrefill{{70, 70}, {0, 5}, {20, 90}};
const std::vector<Lengths> kMixed{{1, 200}, {20, 64}, {1, 0}, {66, 70}, {3, 2}};

TEST(Sanitizer, DecodeSplitAndMerged) {
  const Problem problem = builder(64).lengths(kDecode).plan(split_every(64)).build();
  expect_right(problem);
}
TEST(Sanitizer, DecodeOfOneTokenPages) {
  expect_right(builder(128).page_size(1).lengths(kDecode).build());
}
TEST(Sanitizer, Prefill) {
  expect_right(builder(128).causal().lengths(kPrefill).build());
}
TEST(Sanitizer, PrefillOfOneTokenPagesInHeadMajorPools) {
  expect_right(builder(64).page_size(1).layout(KvLayout::hnd).causal().lengths(kPrefill).build());
}
TEST(Sanitizer, MixedSplitAndMerged) {
  expect_right(builder(64, DType::f16).causal().lengths(kMixed).plan(split_every(64)).build());
}
TEST(Sanitizer, LongRows) {
  expect_right(builder(256).causal().lengths(kMixed).build());
}
TEST(Sanitizer, Float32ByVectors) {
  expect_right(builder(64, DType::f32).causal().lengths({{1, 130}, {9, 40}, {1, 0}}).build());
}
// Variants have tensors of their own, which run_engine() mirrors.
TEST(Sanitizer, WindowsAndSinks) {
  const Variant variant = variants::softmax({.window_left = 20, .window_right = 3, .sinks = true});
  const Problem problem = builder(64).variant(variant).lengths(kMixed).build();
  EXPECT_TRUE(close_to_reference(run_engine(problem), problem));
}
TEST(Sanitizer, CustomMask) {
  const Problem problem = builder(64)
                              .variant(variants::softmax({.custom_mask = true}))
                              .lengths({{1, 90}, {33, 70}, {0, 3}})
                              .build();
  EXPECT_TRUE(close_to_reference(run_engine(problem), problem));
}
TEST(Sanitizer, Rope) {
  const Problem problem =
      builder(64)
          .variant(variants::softmax({.causal = true, .rope = variants::Rope{}}))
          .lengths({{1, 90}, {33, 70}, {0, 3}})
          .build();
  EXPECT_TRUE(close_to_reference(run_engine(problem), problem));
}

TEST(Sanitizer, ReplaysOfAGraph) {
  Limits limits;
  limits.max_batch = 8;
  limits.max_qo_tokens = 100;
  limits.max_pages = 100;
  limits.max_kv_tokens = 400;
  const auto step = [&](std::vector<Lengths> lengths) {
    return builder(64).causal().limits(limits).lengths(std::move(lengths)).build();
  };
  std::vector<Problem> steps;
  for (const auto& lengths : {kDecode, kMixed, kPrefill}) steps.push_back(step(lengths));
  const Problem* now = &steps[0];
  Attention attention(now->spec, now->config);
  DeviceStream stream(device_under_test());
  StepTensors tensors(*now, 100, 100);
  attention.plan(now->plan_input(), stream.handle());
  const DeviceGraph graph(stream, [&] { attention.run(tensors.args(*now, stream.handle())); });
  for (const Problem& problem : steps) {
    now = &problem;
    tensors.load(problem);
    attention.plan(problem.plan_input(), stream.handle());
    graph.launch(stream);
    stream.synchronize();
    EXPECT_TRUE(close_to_reference(tensors.output(problem), problem));
  }
}

/// A few tokens and pages.
struct Tokens {
  explicit Tokens(std::int64_t page_size)
      : rows(DType::bf16, {9, 2, 24}, {.padding = 8}),
        pool(DType::bf16, {6, page_size, 2, 24}),
        other(DType::bf16, {6, 2, page_size, 24}),
        slots(std::vector<std::int64_t>{0, 5, -1, 3, 2, 4, -1, 1, 900}),
        refused(std::vector<std::int32_t>{0}) {
    std::mt19937 random(1);
    rows.fill(random);
    pool.fill(random);
  }
  template <class Place>
  TokenPlaces places(const Place& place) const {
    return {.slots = place(slots), .num_refused = place(refused)};
  }
  Twin rows, pool, other;
  TwinArray slots, refused;
};

TEST(Sanitizer, AppendGatherAndCopyPages) {
  for (const std::int64_t page_size : {1, 16}) {
    Tokens t(page_size);
    const std::vector<float> frequencies{1, 0.5, 0.25, 0.125};
    const HostTensor host_freq = HostTensor::from(DType::f32, frequencies);
    const DeviceTensor device_freq(host_freq.whole());
    const TwinArray positions(std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8});
    const TwinArray from(std::vector<std::int32_t>{0, 1, -1, 77}),
        to(std::vector<std::int32_t>{5, 4, 3, 2});
    call_on_both([&](const auto& place) {
      const KvPool pool{.k = place(t.pool)};
      AppendRope rope{.inv_freq = host_freq.whole(), .dim = 8};
      if (place(positions).data() != positions.host().data()) rope.inv_freq = device_freq.view();
      rope.positions = place(positions);
      append_kv(place(t.rows), {}, pool, t.places(place));
      append_kv(place(t.rows), {}, pool, t.places(place), {.rope = rope});
      gather_kv(pool, t.places(place), place(t.rows), {});
      copy_pages(pool, {.k = place(t.other), .layout = KvLayout::hnd},
                 {.from = place(from), .to = place(to), .num_refused = place(t.refused)});
    });
    EXPECT_TRUE(t.pool.agree(2));
    EXPECT_TRUE(t.rows.agree(2));
    EXPECT_TRUE(t.other.agree(2));
    EXPECT_EQ(t.refused.fetched(), t.refused.on_host());
  }
}

TEST(Sanitizer, Merges) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Twin o(dtype, {3, 7, 2, 24}), lse(DType::f32, {3, 7, 2});
    Twin out(dtype, {7, 2, 24}), out_lse(DType::f32, {7, 2});
    std::mt19937 random(2);
    o.fill(random);
    lse.fill(random);
    const TwinArray indptr(std::vector<std::int32_t>{0, 1, 1, 3, 7, 7, 20, 21});
    call_on_both([&](const auto& place) {
      const TensorView states = place(o), logs = place(lse);
      merge_states(states, logs, place(out), place(out_lse));
      merge_states(place(out), place(out_lse), states.select(0, 1), logs.select(0, 1), place(out),
                   place(out_lse));
      const TensorView flat(states.data(), dtype, {21, 2, 24}, states.device());
      const TensorView flat_logs(logs.data(), DType::f32, {21, 2}, states.device());
      merge_states_ragged(flat, flat_logs, place(indptr), place(out), place(out_lse));
    });
    EXPECT_TRUE(out.agree(dtype == DType::f32 ? 48 : 3));
    EXPECT_TRUE(out_lse.agree(48));
  }
}

}  // namespace
}  // namespace trencadis::testing
