// The public merge, emulated, against its definition in float64: the three forms, types, bases and
// strides; the whole memory of the results is compared.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "cuda/entry/merge_states.h"
#include "simt/launch.h"
#include "simt/strided.h"

namespace trencadis::simt {
namespace {

using collective::PairOfStates;
using collective::RaggedStates;
using collective::StackedStates;
using ptx::BFloat;
using ptx::Half;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Case {
  std::int64_t states = 3;
  std::int64_t rows = 9;
  std::int64_t heads = 3;
  std::int64_t dim = 32;
  Layout layout = {};      // of the first o
  Layout lse_layout = {};  // of all LSE
  bool base_two = false;
  bool out_base_two = false;
  int ctas = 2;
  std::uint64_t seed = 1;

  /// Of another tensor, whose rows are aligned where the first's are not and the other way round.
  Layout other_layout() const {
    return {.order = {1, 0, 2}, .padding = static_cast<std::int64_t>(seed % 2)};
  }
  LaunchConfig launch_config() const { return {.ctas = ctas, .threads = 64, .seed = seed}; }
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.states << " states, " << c.rows << " rows, H " << c.heads << " D " << c.dim
             << " padding " << c.layout.padding << " shift " << c.layout.shift << " base "
             << (c.base_two ? "2" : "e") << " to " << (c.out_base_two ? "2" : "e") << " CTAs "
             << c.ctas << " seed " << c.seed;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  std::uint64_t seed = 0;
  for (const std::int64_t odd : {0, 1, 8})
    for (const std::int64_t dim : {8, 64, 128, 320, 7})
      all.push_back({.states = static_cast<std::int64_t>(seed % 6),
                     .heads = 1 + static_cast<std::int64_t>(seed % 4),
                     .dim = dim,
                     .layout = {.padding = odd, .shift = odd},
                     .lse_layout = {.padding = odd},
                     .base_two = seed % 3 == 0,
                     .out_base_two = seed % 2 == 0,
                     .ctas = 1 + static_cast<int>(seed % 3),
                     .seed = ++seed});
  all.push_back({.dim = 7, .layout = {.padding = 1}, .seed = 40});  // aligned, not whole runs
  return all;
}

/// The states of one (row, head) as (lse, address of its o), merged.
template <class Tag>
struct Reference {
  struct State {
    double lse;
    Index o;  // without the element
  };

  void merge(const Strided<Tag>& o, const std::vector<State>& states) {
    const double base = c.base_two ? 2.0 : std::exp(1.0);
    double largest = -kInfinity;
    for (const State& s : states) largest = std::max(largest, s.lse);
    double total = 0;
    out.assign(static_cast<std::size_t>(c.dim), 0.0);
    for (const State& s : states) {
      if (s.lse == -kInfinity) continue;
      const double weight = std::pow(base, s.lse - largest);
      total += weight;
      for (std::int64_t d = 0; d < c.dim; ++d) {
        Index at = s.o;
        at.push_back(d);
        out[static_cast<std::size_t>(d)] += weight * o.get(at);
      }
    }
    for (double& value : out) value = total == 0 ? 0 : value / total;
    const double logarithm = (largest * std::log(base) + std::log(total));
    lse = total == 0 ? -kInfinity : c.out_base_two ? logarithm / std::log(2.0) : logarithm;
  }

  const Case& c;
  std::vector<double> out = {};
  double lse = 0;
};

/// Results, expected and computed.
template <class Tag>
struct Results {
  Results(const Case& c, const Layout& layout)
      : out({c.rows, c.heads, c.dim}, layout),
        lse({c.rows, c.heads}, c.lse_layout),
        expected_out(out),
        expected_lse(lse) {}

  template <class In>
  void expect(std::int64_t row, std::int64_t head, const Reference<In>& reference) {
    for (std::size_t d = 0; d < reference.out.size(); ++d)
      expected_out.set({row, head, static_cast<std::int64_t>(d)}, reference.out[d]);
    expected_lse.set({row, head}, reference.lse);
  }
  void check(const Case& c) const {
    // Of the format, two; of the approximate 2^x and log2, a few of float32.
    EXPECT_TRUE(out.matches(expected_out, std::is_same_v<Tag, float> ? 24 : 3)) << c;
    EXPECT_TRUE(lse.matches(expected_lse, 24)) << c;
  }

  Strided<Tag> out;
  Strided<float> lse;
  Strided<Tag> expected_out;
  Strided<float> expected_lse;
};

/// LSE of states, some of them empty with an O of NaN, some far from the others.
template <class Tag>
void fill_states(Strided<Tag>& o, Strided<float>& lse, const Index& shape, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(-5, 5);
  o.fill(random);
  Index at(shape.size(), 0);
  const auto count =
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  for (std::int64_t i = 0; i < count; ++i) {
    const auto kind = random() % 8;
    lse.set(at, kind < 2 ? -kInfinity : kind == 2 ? 2000 + uniform(random) : uniform(random));
    if (kind < 2) {
      Index element = at;
      element.push_back(0);
      for (; element.back() < o.size(static_cast<int>(shape.size())); ++element.back())
        o.set(element, std::nan(""));
    }
    for (std::size_t d = shape.size(); d-- > 0 && ++at[d] == shape[d];) at[d] = 0;
  }
}

/// A list whose state, row and head are the dimensions of those numbers; -1: it has no such one.
template <class Tag>
contract::StateList list_of(Strided<Tag>& o, Strided<float>& lse, int state, int row, int head) {
  const auto stride = [](const auto& tensor, int dim) { return dim < 0 ? 0 : tensor.stride(dim); };
  return {o.data(),        lse.data(),         stride(o, state), stride(o, row),
          stride(o, head), stride(lse, state), stride(lse, row), stride(lse, head)};
}

template <class Tag>
contract::MergeStatesParams params_of(const Case& c, Strided<Tag>& out, Strided<float>& lse) {
  contract::MergeStatesParams p{};
  p.out = out.data();
  p.out_lse = lse.data();
  p.out_stride_row = out.stride(0);
  p.out_stride_head = out.stride(1);
  p.out_lse_stride_row = lse.stride(0);
  p.out_lse_stride_head = lse.stride(1);
  p.rows = c.rows;
  p.num_states = static_cast<int>(c.states);
  p.num_heads = static_cast<int>(c.heads);
  p.head_dim = static_cast<int>(c.dim);
  p.lse_base_two = c.base_two ? 1 : 0;
  p.out_lse_base_two = c.out_base_two ? 1 : 0;
  return p;
}

/// `num_rows` of them are asked for, the others stay as they are.
template <class In, class Out>
void check_stacked(const Case& c, int num_rows) {
  Strided<In> o({c.states, c.rows, c.heads, c.dim}, c.layout);
  Strided<float> lse({c.states, c.rows, c.heads}, c.lse_layout);
  fill_states(o, lse, {c.states, c.rows, c.heads}, static_cast<unsigned>(c.seed));
  Results<Out> results(c, c.other_layout());
  Reference<In> reference{c};
  for (std::int64_t i = 0; i < num_rows; ++i)
    for (std::int64_t h = 0; h < c.heads; ++h) {
      std::vector<typename Reference<In>::State> states;
      for (std::int64_t s = 0; s < c.states; ++s) states.push_back({lse.get({s, i, h}), {s, i, h}});
      reference.merge(o, states);
      results.expect(i, h, reference);
    }
  contract::MergeStatesParams params = params_of(c, results.out, results.lse);
  params.first = list_of(o, lse, 0, 1, 2);
  params.num_rows = &num_rows;
  launch(c.launch_config(), [&] { entry::merge_states<In, Out, StackedStates>(params); });
  results.check(c);
}

TEST(SimtMergeStates, ManyAtOnce) {
  for (const Case& c : cases()) {
    check_stacked<float, float>(c, 9);
    check_stacked<float, BFloat>(c, 5);
    check_stacked<BFloat, BFloat>(c, 9);
    check_stacked<Half, float>(c, 1);
    check_stacked<Half, Half>(c, 0);
  }
}

template <class In, class Out>
void check_ragged(const Case& c) {
  std::vector<std::int32_t> indptr = {0};
  for (std::int64_t i = 0; i < c.rows; ++i)
    indptr.push_back(indptr.back() + static_cast<int>((c.seed + 3 * static_cast<unsigned>(i)) % 5));
  const std::int64_t states = indptr.back();
  Strided<In> o({states, c.heads, c.dim}, c.layout);
  Strided<float> lse({states, c.heads}, c.lse_layout);
  fill_states(o, lse, {states, c.heads}, static_cast<unsigned>(c.seed));
  Results<Out> results(c, c.other_layout());
  Reference<In> reference{c};
  for (std::int64_t i = 0; i < c.rows; ++i)
    for (std::int64_t h = 0; h < c.heads; ++h) {
      std::vector<typename Reference<In>::State> of_row;
      for (std::int64_t s = indptr[static_cast<std::size_t>(i)];
           s < indptr[static_cast<std::size_t>(i) + 1]; ++s)
        of_row.push_back({lse.get({s, h}), {s, h}});
      reference.merge(o, of_row);
      results.expect(i, h, reference);
    }
  contract::MergeStatesParams params = params_of(c, results.out, results.lse);
  params.first = list_of(o, lse, 0, -1, 1);
  params.indptr = indptr.data();
  launch(c.launch_config(), [&] { entry::merge_states<In, Out, RaggedStates>(params); });
  results.check(c);
}

TEST(SimtMergeStates, Ragged) {
  for (const Case& c : cases()) {
    check_ragged<float, float>(c);
    check_ragged<float, BFloat>(c);
    check_ragged<Half, Half>(c);
  }
}

/// Two tensors of unlike strides. In place, the first is the result.
template <class In, class Out>
void check_pair(const Case& c, bool in_place) {
  Strided<In> o_a({c.rows, c.heads, c.dim}, c.layout);
  Strided<In> o_b({c.rows, c.heads, c.dim}, c.other_layout());
  Strided<float> lse_a({c.rows, c.heads}, c.lse_layout);
  Strided<float> lse_b({c.rows, c.heads}, {.order = {1, 0}, .padding = 2});
  fill_states(o_a, lse_a, {c.rows, c.heads}, static_cast<unsigned>(c.seed));
  fill_states(o_b, lse_b, {c.rows, c.heads}, static_cast<unsigned>(c.seed) + 1000);
  Results<Out> results(c, in_place ? c.layout : c.other_layout());
  Reference<In> reference{c};
  // Both in one tensor for the reference.
  Strided<In> both({2, c.rows, c.heads, c.dim});
  for (std::int64_t i = 0; i < c.rows; ++i)
    for (std::int64_t h = 0; h < c.heads; ++h) {
      for (std::int64_t d = 0; d < c.dim; ++d) {
        both.set({0, i, h, d}, o_a.get({i, h, d}));
        both.set({1, i, h, d}, o_b.get({i, h, d}));
      }
      reference.merge(both, {{lse_a.get({i, h}), {0, i, h}}, {lse_b.get({i, h}), {1, i, h}}});
      results.expect(i, h, reference);
    }
  contract::MergeStatesParams params = params_of(c, results.out, results.lse);
  params.first = list_of(o_a, lse_a, -1, 0, 1);
  params.second = list_of(o_b, lse_b, -1, 0, 1);
  if constexpr (std::is_same_v<In, Out>) {
    if (in_place) {
      params.out = o_a.data();
      params.out_lse = lse_a.data();
    }
  }
  launch(c.launch_config(), [&] { entry::merge_states<In, Out, PairOfStates>(params); });
  if constexpr (std::is_same_v<In, Out>) {
    if (in_place) {
      results.out = o_a;
      results.lse = lse_a;
    }
  }
  results.check(c);
}

TEST(SimtMergeStates, PairsAndInPlace) {
  for (Case c : cases()) {
    for (const std::uint64_t seed : {1, 2}) {
      c.seed += 100 * seed;  // another order of lanes, which read the LSE that one writes
      check_pair<float, float>(c, true);
      check_pair<BFloat, BFloat>(c, true);
    }
    check_pair<Half, Half>(c, false);
    check_pair<float, BFloat>(c, false);
  }
}

/// One row, one head, two equal elements; returns (o, lse).
std::pair<double, double> merge_two(double o_a, double lse_a, double o_b, double lse_b,
                                    bool base_two = false) {
  const Case c{.rows = 1, .heads = 1, .dim = 8, .base_two = base_two, .out_base_two = base_two};
  Strided<float> a({1, 1, 8}), b({1, 1, 8}), out({1, 1, 8});
  Strided<float> la({1, 1}), lb({1, 1}), lse({1, 1});
  for (int d = 0; d < 8; ++d) {
    a.set({0, 0, d}, o_a);
    b.set({0, 0, d}, o_b);
  }
  la.set({0, 0}, lse_a);
  lb.set({0, 0}, lse_b);
  contract::MergeStatesParams params = params_of(c, out, lse);
  params.first = list_of(a, la, -1, 0, 1);
  params.second = list_of(b, lb, -1, 0, 1);
  launch(c.launch_config(), [&] { entry::merge_states<float, float, PairOfStates>(params); });
  return {out.get({0, 0, 7}), lse.get({0, 0})};
}

using Pair = std::pair<double, double>;

TEST(SimtMergeStates, E4EmptyOperandsAreIgnored) {
  const double nan = std::nan("");
  EXPECT_EQ(merge_two(nan, -kInfinity, nan, -kInfinity), Pair(0, -kInfinity));
  EXPECT_EQ(merge_two(7, 3.5, nan, -kInfinity), Pair(7, 3.5));
  EXPECT_EQ(merge_two(nan, -kInfinity, 7, 3.5), Pair(7, 3.5));
  EXPECT_TRUE(std::isnan(merge_two(nan, -80, 7, 3.5).first));  // far away is not empty
}

TEST(SimtMergeStates, D1PrefixAndSuffix) {
  const auto [o, lse] = merge_two(0, std::log(3072.0), 1, std::log(64.0));
  EXPECT_NEAR(o, 64.0 / 3136, 2e-8);
  EXPECT_NEAR(lse, std::log(3136.0), 1e-6);
  const auto [o_two, lse_two] = merge_two(0, std::log2(3072.0), 1, std::log2(64.0), true);
  EXPECT_NEAR(o_two, 64.0 / 3136, 2e-8);
  EXPECT_NEAR(lse_two, std::log2(3136.0), 2e-6);
}

TEST(SimtMergeStates, FarApartAndLargeStates) {
  EXPECT_EQ(merge_two(1, -21722.32, 2, 30000), Pair(2, 30000));
  // A difference of 1 is exact at any size.
  const double weight = std::exp(-1.0);
  EXPECT_NEAR(merge_two(1, 29999, 0, 30000).first, weight / (1 + weight), 1e-7);
}

TEST(SimtMergeStates, TheGridChangesNoBit) {
  Case c{.states = 5, .rows = 31, .heads = 2, .dim = 64};
  std::vector<Strided<BFloat>> outs;
  for (const int ctas : {1, 4, 40}) {
    c.ctas = ctas;
    Strided<float> o({c.states, c.rows, c.heads, c.dim});
    Strided<float> lse({c.states, c.rows, c.heads});
    fill_states(o, lse, {c.states, c.rows, c.heads}, 5);
    Results<BFloat> results(c, {});
    contract::MergeStatesParams params = params_of(c, results.out, results.lse);
    params.first = list_of(o, lse, 0, 1, 2);
    params.out_lse = nullptr;
    launch(c.launch_config(), [&] { entry::merge_states<float, BFloat, StackedStates>(params); });
    outs.push_back(results.out);
    EXPECT_TRUE(results.lse.matches(results.expected_lse));  // not wanted
  }
  EXPECT_TRUE(outs[0].matches(outs[1]));
  EXPECT_TRUE(outs[0].matches(outs[2]));
}

}  // namespace
}  // namespace trencadis::simt
