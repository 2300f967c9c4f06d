// merge_states on the device merges as on the CPU: the three forms, types, bases, strides, in
// place.
#include <gtest/gtest.h>
#include <trencadis/composition.h>

#include <cmath>
#include <functional>
#include <ostream>
#include <random>
#include <utility>
#include <vector>

#include "gpu/twin.h"

namespace trencadis::testing {
namespace {

// Of float32, where 2^x and log2 are approximate on a device; of the others, their own and one
// more.
constexpr double kFloatSteps = 48, kNarrowSteps = 3;

struct Case {
  std::int64_t states = 3, rows = 9, heads = 3, dim = 32;
  Layout layout = {};      // of the first o
  Layout lse_layout = {};  // of all LSE
  LseBase base = LseBase::natural, out_base = LseBase::natural;
  bool counted = false;  // not all rows are to be merged
  unsigned seed = 1;

  /// Of another tensor, whose rows are aligned where the first's are not and the other way round.
  Layout other_layout() const { return {.order = {1, 0, 2}, .padding = seed % 2}; }
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.states << " states, " << c.rows << " rows, H " << c.heads << " D " << c.dim
             << " padding " << c.layout.padding << " shift " << c.layout.shift << " base "
             << (c.base == LseBase::two ? "2" : "e") << " to "
             << (c.out_base == LseBase::two ? "2" : "e") << " seed " << c.seed;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  unsigned seed = 0;
  for (const std::int64_t odd : {0, 1, 8})
    for (const std::int64_t dim : {8, 64, 128, 320, 7}) {
      all.push_back({.states = seed % 6,
                     .heads = 1 + seed % 4,
                     .dim = dim,
                     .layout = {.padding = odd, .shift = odd},
                     .lse_layout = {.padding = odd},
                     .base = seed % 3 == 0 ? LseBase::two : LseBase::natural,
                     .out_base = seed % 2 == 0 ? LseBase::two : LseBase::natural,
                     .counted = seed % 5 == 2,
                     .seed = seed + 1});
      ++seed;
    }
  all.push_back({.dim = 7, .layout = {.padding = 1}, .seed = 40});  // aligned, not whole runs
  all.push_back({.states = 5, .rows = 700, .heads = 8, .dim = 128, .seed = 41});
  return all;
}

/// Some states are empty with an O of NaN, some far from the others.
void fill_states(Twin& o, Twin& lse, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(-5, 5);
  o.fill(random);
  // The rows of o in the order of the elements of lse.
  TensorView row = o.host();
  const std::int64_t dim = row.size(row.rank() - 1);
  std::vector<double> values = to_doubles(o.host());
  auto next = values.begin();
  fill(lse.host(), [&] {
    const auto kind = random() % 8;
    if (kind < 2) std::fill(next, next + dim, kNan);
    next += dim;
    return kind < 2 ? -kInf : kind == 2 ? 2000 + uniform(random) : uniform(random);
  });
  next = values.begin();
  fill(o.host(), [&] { return *next++; });
  o.bring();
  lse.bring();
}

struct Results {
  Results(const Case& c, DType dtype, const Layout& layout)
      : out(dtype, {c.rows, c.heads, c.dim}, layout),
        lse(DType::f32, {c.rows, c.heads}, c.lse_layout) {}

  void expect_agreement() {
    const bool narrow = out.host().dtype() != DType::f32;
    EXPECT_TRUE(out.agree(narrow ? kNarrowSteps : kFloatSteps));
    EXPECT_TRUE(lse.agree(kFloatSteps));
  }
  Twin out, lse;
};

using Types = std::pair<DType, DType>;  // operands and result
const std::vector<Types> kTypes{{DType::f32, DType::f32},
                                {DType::f32, DType::bf16},
                                {DType::bf16, DType::bf16},
                                {DType::f16, DType::f16}};

/// Calls check(case, types, options_at) for all, where options_at(place) are the options.
template <class Check>
void for_each_case(const Check& check) {
  for (const Case& c : cases())
    for (const Types& types : kTypes) {
      SCOPED_TRACE(::testing::Message()
                   << c << ", " << to_string(types.first) << " to " << to_string(types.second));
      const TwinArray num_rows(std::vector<std::int32_t>{5});
      check(c, types, [&](const auto& place) {
        MergeOptions options{.base = c.base, .out_base = c.out_base};
        if (c.counted) options.num_rows = place(num_rows);
        return options;
      });
    }
}

TEST(GpuMerges, ManyAtOnce) {
  for_each_case([](const Case& c, const Types& types, const auto& options_at) {
    Twin o(types.first, {c.states, c.rows, c.heads, c.dim}, c.layout);
    Twin lse(DType::f32, {c.states, c.rows, c.heads}, c.lse_layout);
    fill_states(o, lse, c.seed);
    Results results(c, types.second, c.other_layout());
    call_on_both([&](const auto& place) {
      merge_states(place(o), place(lse), place(results.out), place(results.lse), options_at(place));
    });
    results.expect_agreement();
  });
}

TEST(GpuMerges, Ragged) {
  for_each_case([](const Case& c, const Types& types, const auto& options_at) {
    std::vector<std::int32_t> offsets{0};
    for (std::int64_t i = 0; i < c.rows; ++i)
      offsets.push_back(offsets.back() + static_cast<std::int32_t>((c.seed + 3 * i) % 5));
    const TwinArray indptr(offsets);
    Twin o(types.first, {offsets.back(), c.heads, c.dim}, c.layout);
    Twin lse(DType::f32, {offsets.back(), c.heads}, c.lse_layout);
    fill_states(o, lse, c.seed);
    Results results(c, types.second, c.other_layout());
    call_on_both([&](const auto& place) {
      merge_states_ragged(place(o), place(lse), place(indptr), place(results.out),
                          place(results.lse), options_at(place));
    });
    results.expect_agreement();
  });
}

/// Two tensors of unlike strides.
struct Pair {
  Pair(const Case& c, DType dtype)
      : o_a(dtype, {c.rows, c.heads, c.dim}, c.layout),
        o_b(dtype, {c.rows, c.heads, c.dim}, c.other_layout()),
        lse_a(DType::f32, {c.rows, c.heads}, c.lse_layout),
        lse_b(DType::f32, {c.rows, c.heads}, {.order = {1, 0}, .padding = 2}) {
    fill_states(o_a, lse_a, c.seed);
    fill_states(o_b, lse_b, c.seed + 1000);
  }
  Twin o_a, o_b, lse_a, lse_b;
};

TEST(GpuMerges, Two) {
  for_each_case([](const Case& c, const Types& types, const auto& options_at) {
    const Pair pair(c, types.first);
    Results results(c, types.second, c.other_layout());
    call_on_both([&](const auto& place) {
      merge_states(place(pair.o_a), place(pair.lse_a), place(pair.o_b), place(pair.lse_b),
                   place(results.out), place(results.lse), options_at(place));
    });
    results.expect_agreement();
  });
}

TEST(GpuMerges, InPlaceOfEither) {
  for_each_case([](const Case& c, const Types& types, const auto& options_at) {
    if (types.first != types.second) return;
    for (const bool second : {false, true}) {
      Pair pair(c, types.first);
      Twin& out = second ? pair.o_b : pair.o_a;
      Twin& out_lse = second ? pair.lse_b : pair.lse_a;
      call_on_both([&](const auto& place) {
        merge_states(place(pair.o_a), place(pair.lse_a), place(pair.o_b), place(pair.lse_b),
                     place(out), place(out_lse), options_at(place));
      });
      EXPECT_TRUE(out.agree(types.second == DType::f32 ? kFloatSteps : kNarrowSteps));
      EXPECT_TRUE(out_lse.agree(kFloatSteps));
    }
  });
}

TEST(GpuMerges, WithoutAnLseIntoOneOfTheStates) {
  const Case c{.states = 4, .rows = 31};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Twin o(dtype, {c.states, c.rows, c.heads, c.dim}), lse(DType::f32, {c.states, c.rows, c.heads});
    fill_states(o, lse, 3);
    call_on_both([&](const auto& place) {
      merge_states(place(o), place(lse), place(o).select(0, 0), TensorView());
    });
    EXPECT_TRUE(o.agree(dtype == DType::f32 ? kFloatSteps : kNarrowSteps));
    EXPECT_TRUE(lse.agree());
  }
}

/// One row, one head, equal elements; on the device: (o, lse).
std::pair<double, double> merge_two(double o_a, double lse_a, double o_b, double lse_b,
                                    LseBase base = LseBase::natural) {
  const auto tensor = [](std::vector<std::int64_t> shape, double value) {
    return HostTensor(DType::f32, std::move(shape), value);
  };
  const HostTensor a = tensor({1, 1, 8}, o_a), b = tensor({1, 1, 8}, o_b);
  const HostTensor la = tensor({1, 1}, lse_a), lb = tensor({1, 1}, lse_b);
  const HostTensor out = tensor({1, 1, 8}, kNan), lse = tensor({1, 1}, 123);
  const DeviceTensor there_a(a.whole()), there_b(b.whole()), there_la(la.whole()),
      there_lb(lb.whole()), there_out(out.whole()), there_lse(lse.whole());
  merge_states(there_a.view(), there_la.view(), there_b.view(), there_lb.view(), there_out.view(),
               there_lse.view(), {.base = base});
  there_out.fetch();
  there_lse.fetch();
  return {get(out.whole(), {0, 0, 7}), get(lse.whole(), {0, 0})};
}

TEST(GpuMerges, E4EmptyOperandsAreIgnored) {
  using Result = std::pair<double, double>;
  EXPECT_EQ(merge_two(kNan, -kInf, kNan, -kInf), Result(0, -kInf));
  EXPECT_EQ(merge_two(7, 3.5, kNan, -kInf), Result(7, 3.5));
  EXPECT_EQ(merge_two(kNan, -kInf, 7, 3.5), Result(7, 3.5));
  EXPECT_TRUE(std::isnan(merge_two(kNan, -80, 7, 3.5).first));  // far away is not empty
}

TEST(GpuMerges, D1PrefixAndSuffix) {
  const auto [o, lse] = merge_two(0, std::log(3072.0), 1, std::log(64.0));
  EXPECT_NEAR(o, 64.0 / 3136, 1e-7);
  EXPECT_NEAR(lse, std::log(3136.0), 3e-6);
  const auto [o_two, lse_two] = merge_two(0, std::log2(3072.0), 1, std::log2(64.0), LseBase::two);
  EXPECT_NEAR(o_two, 64.0 / 3136, 1e-7);
  EXPECT_NEAR(lse_two, std::log2(3136.0), 5e-6);
}

}  // namespace
}  // namespace trencadis::testing
