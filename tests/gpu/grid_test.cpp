// The kernels as a device runs them against the float64 reference: about 150 problems that cover
// every pair of values of all that a problem can differ in, over about 30 kernels.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <trencadis/runtime.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "support/backend_under_test.h"
#include "support/compare.h"
#include "support/problem.h"
#include "support/run.h"

namespace trencadis::testing {
namespace {

struct Dims {
  int qk, vo;
};
constexpr std::array<Dims, 10> kDims{{{16, 16},
                                      {24, 24},
                                      {64, 64},
                                      {80, 80},
                                      {96, 96},
                                      {128, 128},
                                      {192, 128},
                                      {72, 136},
                                      {256, 256},
                                      {512, 512}}};

struct Types {
  const char* name;
  DType in, out;
};
constexpr std::array<Types, 5> kTypes{{{"bf16", DType::bf16, DType::bf16},
                                       {"f16", DType::f16, DType::f16},
                                       {"f32", DType::f32, DType::f32},
                                       {"bf16_to_f32", DType::bf16, DType::f32},
                                       {"f16_to_f32", DType::f16, DType::f32}}};

constexpr std::array<Heads, 9> kHeads{
    {{1, 1}, {4, 4}, {8, 1}, {32, 8}, {32, 4}, {12, 4}, {40, 8}, {7, 7}, {64, 1}}};
constexpr std::array<std::int64_t, 8> kPages{1, 2, 3, 16, 64, 128, 1024, 0};  // 0: ragged
constexpr std::array<PoolStyle, 3> kPools{PoolStyle::separate, PoolStyle::interleaved,
                                          PoolStyle::layered};
constexpr std::array<MaskBounds, 5> kMasks{{{-1, -1}, {-1, 0}, {127, 0}, {20, 5}, {-1, 10}}};
constexpr std::array<const char*, 8> kBatches{"decode", "long_decode", "prefill",   "mixed",
                                              "chunk",  "speculative", "one_token", "many"};
constexpr std::array<const char*, 4> kPlans{"auto", "unsplit", "split", "invariant"};

/// Kernels: a pair of dims and types. Float32 has no room for the longest rows, and outputs of
/// another type are one kernel more for some dims.
struct Kernel {
  std::size_t dims, types;
};
std::vector<Kernel> kernels() {
  std::vector<Kernel> all;
  for (std::size_t types = 0; types < 3; ++types)
    for (std::size_t dims = 0; dims < kDims.size(); ++dims)
      if (kTypes[types].in != DType::f32 || kDims[dims].qk < 256) all.push_back({dims, types});
  all.push_back({2, 3});
  all.push_back({5, 4});
  return all;
}

/// Everything that a problem differs in, as indices of the lists.
struct Case {
  static constexpr std::size_t kFactors = 10;
  enum Factor { dims, types, heads, page, layout, pool, mask, batch, plan, index };

  std::array<std::size_t, kFactors> value{};
  std::uint64_t seed = 0;

  std::size_t operator[](Factor factor) const { return value[factor]; }
};

constexpr std::array<std::size_t, Case::kFactors> kChoices{
    kDims.size(),  kTypes.size(), kHeads.size(),   kPages.size(), 2,
    kPools.size(), kMasks.size(), kBatches.size(), kPlans.size(), 4};

using Pairs = std::set<std::array<std::size_t, 4>>;  // factor, factor, value, value

Pairs pairs_of(const Case& c) {
  Pairs pairs;
  for (std::size_t a = 0; a < Case::kFactors; ++a)
    for (std::size_t b = a + 1; b < Case::kFactors; ++b)
      pairs.insert({a, b, c.value[a], c.value[b]});
  return pairs;
}

constexpr std::size_t kRounds = 5;  // cases of a kernel
constexpr int kCandidates = 100;

/// Round by round every kernel gets the case that has the most pairs which no earlier one had.
std::vector<Case> cases() {
  const std::vector<Kernel> all = kernels();
  std::mt19937_64 random(1);
  std::vector<Case> chosen;
  Pairs covered;
  for (std::size_t i = 0; i < kRounds * all.size(); ++i) {
    Case best;
    std::size_t most = 0;
    for (int candidate = 0; candidate < kCandidates; ++candidate) {
      Case c;
      for (std::size_t f = 0; f < Case::kFactors; ++f) c.value[f] = random() % kChoices[f];
      c.value[Case::dims] = all[i % all.size()].dims;
      c.value[Case::types] = all[i % all.size()].types;
      std::size_t fresh = 0;
      for (const auto& pair : pairs_of(c)) fresh += covered.contains(pair) ? 0 : 1;
      if (candidate > 0 && fresh <= most) continue;
      most = fresh;
      best = c;
    }
    best.seed = i + 1;
    chosen.push_back(best);
    covered.merge(pairs_of(best));
  }
  return chosen;
}

/// Tokens of a long request: fewer where a token is more.
std::int64_t long_tokens(const Case& c) {
  const std::int64_t token =
      kHeads[c[Case::heads]].kv * std::int64_t{kDims[c[Case::dims]].qk + kDims[c[Case::dims]].vo};
  return std::clamp<std::int64_t>(8'000'000 / token, 5'100, 20'000);
}

std::vector<Lengths> lengths_of(const Case& c) {
  const std::int64_t longest = long_tokens(c);
  switch (c[Case::batch]) {
    case 0:
      return {{1, 1}, {1, 17}, {1, 640}, {1, 0}, {1, 1300}, {1, 64}, {1, 129}};
    case 1:
      return {{1, 3}, {1, longest}, {1, 1}};
    case 2:
      return {{70, 70}, {130, 200}, {5, 300}};
    case 3:
      return {{1, 300}, {40, 41}, {0, 5}, {1, 0}, {7, 133}, {64, 64}, {3, 2}, {1, 1}, {17, 90}};
    case 4:
      return {{16, longest / 2}, {1, 500}};
    case 5:
      return {{4, 400}, {5, 61}, {8, 8}, {2, 1000}};
    case 6:
      return {{1, 1}};
    default:
      break;
  }
  std::vector<Lengths> many;
  const std::int64_t requests = kPages[c[Case::page]] == 1024 ? 12 : 40;  // a page each
  for (std::int64_t i = 0; i < requests; ++i) many.push_back({i % 9 == 4 ? 0 : 1, (i * 37) % 121});
  return many;
}

PlanOptions plan_of(const Case& c) {
  PlanOptions options;
  if (c[Case::plan] == 1) options.split = SplitMode::none;
  if (c[Case::plan] == 2) {
    options.split = SplitMode::fixed;
    options.fixed_split_tokens = 192;
  }
  if (c[Case::plan] == 3) options.batch_invariant = true;
  return options;
}

Problem problem_of(const Case& c) {
  const Heads heads = kHeads[c[Case::heads]];
  const Dims dims = kDims[c[Case::dims]];
  const Types& types = kTypes[c[Case::types]];
  Variant variant;
  variant.bounds = kMasks[c[Case::mask]];
  ProblemBuilder b;
  b.heads(heads.qo, heads.kv).dims(dims.qk, dims.vo).dtypes(types.in, types.in, types.out);
  b.variant(variant).lengths(lengths_of(c)).plan(plan_of(c)).seed(c.seed);
  b.layout(c[Case::layout] == 0 ? KvLayout::nhd : KvLayout::hnd).pool(kPools[c[Case::pool]]);
  b.lse_base(c[Case::index] / 2 == 0 ? LseBase::natural : LseBase::two);
  if (c[Case::index] % 2 == 1) b.wide_indices();
  if (kPages[c[Case::page]] == 0)
    b.ragged();
  else
    b.page_size(kPages[c[Case::page]]);
  return b.build();
}

std::string name_of(const Case& c) {
  const Heads heads = kHeads[c[Case::heads]];
  const Dims dims = kDims[c[Case::dims]];
  const MaskBounds mask = kMasks[c[Case::mask]];
  const auto bound = [](std::int64_t tokens) {
    return tokens < 0 ? std::string("all") : std::to_string(tokens);
  };
  const std::array pools{"separate", "interleaved", "layered"};
  return fmt::format("n{}_{}_d{}_{}_h{}_{}_p{}_{}_{}_left{}_right{}_{}_{}", c.seed,
                     kTypes[c[Case::types]].name, dims.qk, dims.vo, heads.qo, heads.kv,
                     kPages[c[Case::page]], c[Case::layout] == 0 ? "nhd" : "hnd",
                     pools[c[Case::pool]], bound(mask.left), bound(mask.right),
                     kBatches[c[Case::batch]], kPlans[c[Case::plan]]);
}

class Grid : public ::testing::TestWithParam<Case> {};

TEST_P(Grid, EqualsTheReference) {
  const Problem problem = problem_of(GetParam());
  if (problem.spec.head_dim_qk > 256) {
    const std::string reason = can_implement(problem.spec, problem.config, backend_under_test());
    if (!reason.empty()) GTEST_SKIP() << reason;
  }
  EXPECT_TRUE(close_to_reference(run_engine(problem), problem));
}

INSTANTIATE_TEST_SUITE_P(Gpu, Grid, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return name_of(test.param); });

/// Of the host: what the list promises.
TEST(GridItself, EveryPairOfValuesIsCovered) {
  const std::vector<Case> all = cases();
  EXPECT_EQ(kernels().size() % 10, 0u) << "the shards of CMakeLists.txt";
  Pairs covered;
  for (const Case& c : all) covered.merge(pairs_of(c));
  int expected = 0;
  for (std::size_t a = Case::heads; a < Case::kFactors; ++a)
    for (std::size_t b = 0; b < a; ++b)
      for (std::size_t x = 0; x < kChoices[b]; ++x)
        for (std::size_t y = 0; y < kChoices[a]; ++y) {
          if (b == Case::types && x >= 3) continue;  // of some kernels
          ++expected;
          const bool is_there = covered.contains({b, a, x, y});
          EXPECT_TRUE(is_there) << "factors " << b << " and " << a << ", values " << x << " and "
                                << y;
        }
  EXPECT_GT(expected, 1000);
}

}  // namespace
}  // namespace trencadis::testing
