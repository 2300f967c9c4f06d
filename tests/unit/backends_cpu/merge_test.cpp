// merge_states in its three forms: E4, D1, strides, dtypes, bases, and refusals in words.
#include <gtest/gtest.h>
#include <trencadis/trencadis.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <vector>

#include "support/expect_error.h"
#include "support/host_tensor.h"

namespace trencadis::testing {
namespace {

constexpr float kInfinityF = std::numeric_limits<float>::infinity();

struct Merged {
  double o;
  double lse;
};

/// (o_a, lse_a) + (o_b, lse_b) with one row, one head and two equal elements.
Merged merge_pair(double o_a, double lse_a, double o_b, double lse_b,
                  LseBase base = LseBase::natural) {
  const HostTensor oa(DType::f32, {1, 1, 2}, o_a), ob(DType::f32, {1, 1, 2}, o_b);
  const HostTensor la(DType::f32, {1, 1}, lse_a), lb(DType::f32, {1, 1}, lse_b);
  const HostTensor out(DType::f32, {1, 1, 2}), lse(DType::f32, {1, 1});
  merge_states(oa.whole(), la.whole(), ob.whole(), lb.whole(), out.whole(), lse.whole(),
               {.base = base});
  EXPECT_EQ(get(out.whole(), {0, 0, 0}), get(out.whole(), {0, 0, 1}));
  return {get(out.whole(), {0, 0, 0}), get(lse.whole(), {0, 0})};
}

TEST(MergeStates, E4EmptyOperandsAreIgnored) {
  const Merged none = merge_pair(0, -kInfinityF, 0, -kInfinityF);
  EXPECT_EQ(none.o, 0);
  EXPECT_EQ(none.lse, -kInfinityF);
  for (const bool swapped : {false, true}) {
    const Merged one =
        swapped ? merge_pair(7, 3.5, kNan, -kInfinityF) : merge_pair(kNan, -kInfinityF, 7, 3.5);
    EXPECT_EQ(one.o, 7);
    EXPECT_EQ(one.lse, 3.5);
  }
}

// D1: 3072 keys with V = 0 and 64 with V = 1, all logits 0.
TEST(MergeStates, D1PrefixAndSuffix) {
  const Merged natural = merge_pair(0, std::log(3072.0), 1, std::log(64.0));
  EXPECT_NEAR(natural.o, 64.0 / 3136, 1e-8);
  EXPECT_NEAR(natural.lse, std::log(3136.0), 1e-6);
  const Merged two = merge_pair(0, std::log2(3072.0), 1, std::log2(64.0), LseBase::two);
  EXPECT_NEAR(two.o, 64.0 / 3136, 1e-8);
  EXPECT_NEAR(two.lse, std::log2(3136.0), 1e-6);
}

TEST(MergeStates, FarApartStatesDoNotOverflow) {
  const Merged merged = merge_pair(1, -21722.32, 2, 30000);
  EXPECT_EQ(merged.o, 2);
  EXPECT_EQ(merged.lse, 30000);
}

TEST(MergeStates, InPlaceAndThroughStrides) {
  // Rows and heads with space between them; the operands have unlike strides.
  const HostTensor wide(DType::bf16, {3, 2, 8}, 4.0), dense(DType::bf16, {3, 2, 4}, 2.0);
  const TensorView o_a = wide.whole().slice(2, 2, 6);
  const HostTensor lse_a(DType::f32, {3, 4}, 1.0), lse_b(DType::f32, {3, 2}, 1.0);
  const TensorView la = lse_a.whole().slice(1, 1, 3);
  merge_states(o_a, la, dense.whole(), lse_b.whole(), o_a, la);
  for (std::int64_t i = 0; i < 3; ++i)
    for (std::int64_t h = 0; h < 2; ++h) {
      EXPECT_NEAR(get(la, {i, h}), 1 + std::numbers::ln2, 1e-6);
      for (std::int64_t d = 0; d < 4; ++d) EXPECT_EQ(get(o_a, {i, h, d}), 3);
      EXPECT_EQ(get(wide.whole(), {i, h, 1}), 4);  // beside the slice
      EXPECT_EQ(get(wide.whole(), {i, h, 6}), 4);
    }
}

TEST(MergeStates, ManyAtOnceAndNone) {
  const HostTensor o(DType::f32, {3, 1, 1, 1}, 0.0), lse(DType::f32, {3, 1, 1}, 0.0);
  for (std::int64_t s = 0; s < 3; ++s) set(o.whole(), {s, 0, 0, 0}, static_cast<double>(s));
  const HostTensor out(DType::f32, {1, 1, 1}), out_lse(DType::f32, {1, 1});
  merge_states(o.whole(), lse.whole(), out.whole(), out_lse.whole());
  EXPECT_NEAR(get(out.whole(), {0, 0, 0}), 1, 1e-7);
  EXPECT_NEAR(get(out_lse.whole(), {0, 0}), std::log(3.0), 1e-6);

  merge_states(o.whole().slice(0, 0, 0), lse.whole().slice(0, 0, 0), out.whole(), out_lse.whole());
  EXPECT_EQ(get(out.whole(), {0, 0, 0}), 0);
  EXPECT_EQ(get(out_lse.whole(), {0, 0}), -kInfinityF);
}

TEST(MergeStates, RaggedRowsHaveAnyNumberOfStates) {
  const HostTensor o(DType::f16, {3, 1, 2}, 0.0), lse(DType::f32, {3, 1}, 0.0);
  for (std::int64_t s = 0; s < 3; ++s)
    for (std::int64_t d = 0; d < 2; ++d) set(o.whole(), {s, 0, d}, static_cast<double>(s));
  const HostTensor out(DType::f16, {3, 1, 2}), out_lse(DType::f32, {3, 1});
  merge_states_ragged(o.whole(), lse.whole(), std::vector<std::int32_t>{0, 1, 1, 3}, out.whole(),
                      out_lse.whole());
  EXPECT_EQ(get(out.whole(), {0, 0, 0}), 0);
  EXPECT_EQ(get(out.whole(), {1, 0, 0}), 0);
  EXPECT_EQ(get(out_lse.whole(), {1, 0}), -kInfinityF);
  EXPECT_EQ(get(out.whole(), {2, 0, 1}), 1.5);
  EXPECT_NEAR(get(out_lse.whole(), {2, 0}), std::numbers::ln2, 1e-6);
}

TEST(MergeStates, DtypesAndBasesMayDiffer) {
  const HostTensor o_a(DType::f32, {1, 1, 2}, 0.0), o_b(DType::f32, {1, 1, 2}, 1.0);
  const HostTensor lse_a(DType::f32, {1, 1}, std::log(3072.0)),
      lse_b(DType::f32, {1, 1}, std::log(64.0));
  const HostTensor out(DType::bf16, {1, 1, 2}), lse(DType::f32, {1, 1});
  const auto merge = [&](LseBase base, std::optional<LseBase> out_base) {
    merge_states(o_a.whole(), lse_a.whole(), o_b.whole(), lse_b.whole(), out.whole(), lse.whole(),
                 {.base = base, .out_base = out_base});
    return get(lse.whole(), {0, 0});
  };
  EXPECT_NEAR(merge(LseBase::natural, LseBase::two), std::log2(3136.0), 2e-6);
  EXPECT_NEAR(get(out.whole(), {0, 0, 1}), 64.0 / 3136, 1e-4);
  EXPECT_NEAR(merge(LseBase::natural, {}), std::log(3136.0), 1e-6);
  set(lse_a.whole(), {0, 0}, std::log2(3072.0));
  set(lse_b.whole(), {0, 0}, std::log2(64.0));
  EXPECT_NEAR(merge(LseBase::two, {}), std::log2(3136.0), 2e-6);
  EXPECT_NEAR(merge(LseBase::two, LseBase::natural), std::log(3136.0), 2e-6);
  set(lse_a.whole(), {0, 0}, -kInf);
  set(lse_b.whole(), {0, 0}, -kInf);
  EXPECT_EQ(merge(LseBase::two, LseBase::natural), -kInf);
}

TEST(MergeStates, RowsBehindNumRowsStay) {
  std::int32_t num_rows = 1;
  const MergeOptions options{.num_rows = TensorView(&num_rows, DType::i32, {1})};
  const HostTensor o(DType::f32, {3, 2, 1, 2}, 1.0), lse(DType::f32, {3, 2, 1}, 0.0);
  const HostTensor out(DType::f32, {2, 1, 2}), out_lse(DType::f32, {2, 1});
  merge_states(o.whole(), lse.whole(), out.whole(), out_lse.whole(), options);
  EXPECT_EQ(get(out.whole(), {0, 0, 1}), 1);
  EXPECT_TRUE(std::isnan(get(out.whole(), {1, 0, 1})));
  EXPECT_TRUE(std::isnan(get(out_lse.whole(), {1, 0})));
  num_rows = 3;
  expect_error(ErrorKind::invalid_argument, {"num_rows holds 3", "0 to 2"}, [&] {
    merge_states(o.whole(), lse.whole(), out.whole(), out_lse.whole(), options);
  });
}

TEST(MergeStates, AnLseThatNobodyWantsAndOneStateInPlace) {
  const HostTensor o(DType::f16, {2, 3, 2, 4}, 2.0), lse(DType::f32, {2, 3, 2}, 0.0);
  const TensorView first = o.whole().select(0, 0);
  fill(first, 4.0);
  merge_states(o.whole(), lse.whole(), first, {});
  for (const double x : to_doubles(first)) EXPECT_EQ(x, 3);
  for (const double x : to_doubles(o.whole().select(0, 1))) EXPECT_EQ(x, 2);
}

TEST(MergeStates, RaggedRowsByATensor) {
  const HostTensor o(DType::f32, {5, 1, 2}, 0.0), lse(DType::f32, {5, 1}, 0.0);
  for (std::int64_t s = 0; s < 5; ++s)
    for (std::int64_t d = 0; d < 2; ++d) set(o.whole(), {s, 0, d}, static_cast<double>(s));
  // Not from the first state, not to the last.
  std::vector<std::int32_t> indptr{1, 3, 3};
  const TensorView rows(indptr.data(), DType::i32, {3});
  const HostTensor out(DType::bf16, {2, 1, 2});
  merge_states_ragged(o.whole(), lse.whole(), rows, out.whole(), {});
  EXPECT_EQ(get(out.whole(), {0, 0, 0}), 1.5);
  EXPECT_EQ(get(out.whole(), {1, 0, 0}), 0);
  const auto refuses = [&](std::vector<std::int32_t> wrong, const std::string& text) {
    indptr = std::move(wrong);
    const TensorView view(indptr.data(), DType::i32, {3});
    fill(out.whole(), kNan);
    expect_error(ErrorKind::invalid_argument, {text},
                 [&] { merge_states_ragged(o.whole(), lse.whole(), view, out.whole(), {}); });
    for (const double x : to_doubles(out.whole())) EXPECT_TRUE(std::isnan(x));
  };
  refuses({0, 2, 1}, "indptr[2] is 1, expected 2");
  refuses({0, 2, 6}, "indptr[2] is 6");
  refuses({-1, 2, 3}, "indptr[0] is -1");
}

TEST(MergeStates, InPlaceNeedsTheOperandsStrides) {
  const HostTensor o(DType::f32, {2, 2, 2}, 0.0), lse(DType::f32, {2, 2}, 0.0);
  const std::int64_t shape[] = {2, 2}, transposed[] = {1, 2};
  const TensorView turned(lse.whole().data(), DType::f32, shape, transposed);
  const HostTensor other(DType::f32, {2, 2, 2}, 0.0), out(DType::f32, {2, 2, 2});
  expect_error(ErrorKind::invalid_argument, {"out_lse", "lies in lse_b"}, [&] {
    merge_states(o.whole(), lse.whole(), other.whole(), turned, out.whole(), lse.whole());
  });
  const TensorView half(o.whole().data(), DType::f16, {2, 2, 2});
  expect_error(ErrorKind::invalid_argument, {"out", "lies in o_a"},
               [&] { merge_states(o.whole(), lse.whole(), other.whole(), lse.whole(), half, {}); });
  std::vector<std::int32_t> indptr{0, 1, 2};
  expect_error(ErrorKind::invalid_argument, {"ragged"}, [&] {
    merge_states_ragged(o.whole(), lse.whole(), TensorView(indptr.data(), DType::i32, {3}),
                        o.whole(), {});
  });
}

TEST(MergeStates, RefusesInWords) {
  const HostTensor o(DType::f32, {2, 1, 2}, 0.0), lse(DType::f32, {2, 1}, 0.0);
  const HostTensor narrow(DType::f32, {2, 1, 1}, 0.0), half(DType::f16, {2, 1, 2}, 0.0);
  expect_error(ErrorKind::invalid_argument, {"o_b"}, [&] {
    merge_states(o.whole(), lse.whole(), narrow.whole(), lse.whole(), o.whole(), lse.whole());
  });
  expect_error(ErrorKind::type_mismatch, {"o_b"}, [&] {
    merge_states(o.whole(), lse.whole(), half.whole(), lse.whole(), o.whole(), lse.whole());
  });
  const HostTensor out(DType::f32, {1, 1, 2});
  expect_error(ErrorKind::invalid_argument, {"indptr ends with 1", "2 states"}, [&] {
    merge_states_ragged(o.whole(), lse.whole(), std::vector<std::int64_t>{0, 1}, out.whole(), {});
  });
  expect_error(ErrorKind::invalid_argument, {"indptr has 3 entries"}, [&] {
    merge_states_ragged(o.whole(), lse.whole(), std::vector<std::int64_t>{0, 1, 2}, out.whole(),
                        {});
  });
  expect_error(ErrorKind::invalid_argument, {"out_lse is float32[2, 1]", "[1, 1]"}, [&] {
    merge_states_ragged(o.whole(), lse.whole(), std::vector<std::int64_t>{0, 2}, out.whole(),
                        lse.whole());
  });
}

}  // namespace
}  // namespace trencadis::testing
