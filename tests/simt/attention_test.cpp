// The CUDA kernels against attention by its definition in float64, without a GPU.
#include <gtest/gtest.h>

#include "simt/run_emulated.h"
#include "support/compare.h"
#include "support/problem.h"

namespace trencadis::testing {
namespace {

using collective::Tile;
using ptx::BFloat;
using ptx::Half;
using simt::run_emulated;

/// What the planner chooses on a card with room for every tile.
using AllClasses = collective::TileClasses<Tile<1, 64>, Tile<16, 64>, Tile<32, 128>, Tile<64, 128>,
                                           Tile<128, 128>>;
using OneRow = collective::TileClasses<Tile<1, 64>>;

struct NoParams {
  static NoParams load(const contract::VariantArgs&) { return {}; }
};

template <class ElementTag, int kQk, int kVo = kQk>
struct Plain {
  static constexpr int kHeadDimQk = kQk, kHeadDimVo = kVo;
  using Element = ElementTag;
  using Output = ElementTag;
  static constexpr bool kUseSoftmax = true;
  static constexpr int kWarps = 4;
  using TileClasses = AllClasses;
  using Functor = variant::Chain<>;
  using Params = NoParams;
};

/// The same by the Hopper template; with more slots than tiles in flight, or as few as it takes.
template <class ElementTag, int kQk, int kVo = kQk, int kTokens = 128, int kSlots = 4,
          int kBuffers = 2>
struct Ring : Plain<ElementTag, kQk, kVo> {
  static constexpr int kWarps = 8;
  static constexpr int kQueryBuffers = kBuffers;
  using TileClasses =
      collective::TileClasses<Tile<16, kTokens, kSlots>, Tile<128, kTokens, kSlots>>;
};

struct Portable {
  template <class Tag, int kQk, int kVo = kQk>
  using Config = Plain<Tag, kQk, kVo>;
};
struct Hopper {
  template <class Tag, int kQk, int kVo = kQk>
  using Config = Ring<Tag, kQk, kVo>;
};

/// What holds for every template.
template <class Template>
class SimtAttention : public ::testing::Test {};
using Templates = ::testing::Types<Portable, Hopper>;
TYPED_TEST_SUITE(SimtAttention, Templates);

ProblemBuilder builder(DType dtype, int dim) {
  ProblemBuilder b;
  b.heads(4, 2).dims(dim).dtype(dtype).page_size(16);
  return b;
}

/// Requests that meet every class of AllClasses for groups of 1 and 2, among them empty ones.
std::vector<Lengths> mixed_lengths() {
  return {{1, 300}, {1, 1}, {0, 5}, {1, 0}, {7, 133}, {20, 64}, {40, 41}, {90, 200}, {3, 2}};
}

TYPED_TEST(SimtAttention, DecodeIsSplitAndMerged) {
  using Config = typename TypeParam::template Config<BFloat, 64>;
  const Problem p =
      builder(DType::bf16, 64).lengths({{1, 900}, {1, 1}, {1, 64}, {1, 0}, {1, 129}}).build();
  for (const int ctas : {1, 3, 16})
    EXPECT_TRUE(close_to_reference(run_emulated<Config>(p, ctas), p)) << ctas;
}

TYPED_TEST(SimtAttention, EveryClassInOneLaunch) {
  using Config = typename TypeParam::template Config<Half, 64>;
  for (const bool causal : {false, true}) {
    ProblemBuilder b = builder(DType::f16, 64).lengths(mixed_lengths());
    if (causal) b.causal();
    const Problem p = b.build();
    EXPECT_TRUE(close_to_reference(run_emulated<Config>(p), p)) << causal;
  }
}

TYPED_TEST(SimtAttention, TheOrderOfThreadsChangesNoBit) {
  using Config = typename TypeParam::template Config<BFloat, 64>;
  const Problem p = builder(DType::bf16, 64).causal().lengths(mixed_lengths()).build();
  const Output first = run_emulated<Config>(p, 3, 1);
  for (std::uint64_t seed = 2; seed < 6; ++seed)
    EXPECT_TRUE(same_bits(first, run_emulated<Config>(p, 3, seed))) << seed;
}

template <class Config>
class Dims : public ::testing::Test {};
struct Plain256 : Plain<BFloat, 256> {  // 128 rows by 128 tokens have no room
  using TileClasses =
      collective::TileClasses<Tile<1, 64>, Tile<16, 64>, Tile<32, 64>, Tile<64, 64>, Tile<128, 64>>;
};
using DimConfigs =
    ::testing::Types<Plain<BFloat, 16>, Plain<Half, 24>, Plain<Half, 40>, Plain<BFloat, 80>,
                     Plain<BFloat, 96>, Plain<Half, 128>, Plain<BFloat, 192, 128>,
                     Plain<Half, 72, 136>, Plain256, Ring<Half, 64>,
                     Ring<BFloat, 128, 128, 128, 3, 1>, Ring<BFloat, 128, 64, 64, 7>,
                     Ring<BFloat, 192, 128, 64>, Ring<Half, 256, 256, 64, 4, 1>>;
TYPED_TEST_SUITE(Dims, DimConfigs);

TYPED_TEST(Dims, H2AreRightForEveryClass) {
  const bool half = std::is_same_v<typename TypeParam::Element, Half>;
  ProblemBuilder b;
  b.heads(2, 1).dims(TypeParam::kHeadDimQk, TypeParam::kHeadDimVo).page_size(5).causal();
  b.dtype(half ? DType::f16 : DType::bf16).lengths({{1, 90}, {6, 40}, {20, 70}, {70, 75}});
  const Problem p = b.build();
  EXPECT_TRUE(close_to_reference(run_emulated<TypeParam>(p), p));
  EXPECT_GT(simt::attention_statistics().ldmatrix_phases, 0u);
  EXPECT_EQ(simt::attention_statistics().ldmatrix_conflicts, 0u);
}

TYPED_TEST(SimtAttention, A3EveryPageSizeLayoutAndPool) {
  using Config = typename TypeParam::template Config<BFloat, 64>;
  for (const std::int64_t page : {1, 2, 3, 8, 16, 24, 64, 128, 1024}) {
    for (const KvLayout layout : {KvLayout::nhd, KvLayout::hnd}) {
      const Problem p = builder(DType::bf16, 64)
                            .page_size(page)
                            .layout(layout)
                            .pool(page % 2 == 0 ? PoolStyle::layered : PoolStyle::separate)
                            .lengths({{1, 150}, {9, 33}, {2, 128}})
                            .causal()
                            .build();
      EXPECT_TRUE(close_to_reference(run_emulated<Config>(p), p)) << page;
    }
  }
  const Problem ragged =
      builder(DType::bf16, 64).ragged().lengths({{1, 150}, {9, 33}, {2, 128}}).build();
  EXPECT_TRUE(close_to_reference(run_emulated<Config>(ragged), ragged));
}

TYPED_TEST(SimtAttention, H1EveryGroupSize) {
  using Config = typename TypeParam::template Config<BFloat, 64>;
  for (const int group : {1, 2, 3, 5, 7, 8, 9, 16, 40}) {
    ProblemBuilder b;
    b.heads(2 * group, 2).dims(64).dtype(DType::bf16).page_size(16).causal();
    const Problem p = b.lengths({{1, 200}, {5, 77}, {17, 17}}).build();
    EXPECT_TRUE(close_to_reference(run_emulated<Config>(p), p)) << group;
  }
}

TYPED_TEST(SimtAttention, WholeItemsOfManyRowBlocksOneAfterAnother) {
  using Config = typename TypeParam::template Config<BFloat, 64>;
  Problem p =
      builder(DType::bf16, 64).causal().lengths({{500, 500}, {300, 300}, {400, 420}}).build();
  for (const Scheduler scheduler :
       {Scheduler::even_cut, Scheduler::longest_first, Scheduler::l2_windows}) {
    p.config.plan.scheduler = scheduler;
    EXPECT_TRUE(close_to_reference(run_emulated<Config>(p, 2), p)) << static_cast<int>(scheduler);
  }
}

TYPED_TEST(SimtAttention, ManyHeadsInRoundsOfL2Windows) {
  using Config = typename TypeParam::template Config<BFloat, 64>;
  ProblemBuilder b;
  b.heads(8, 8).dims(64).dtype(DType::bf16).page_size(16).causal();
  Problem p = b.lengths({{512, 512}, {512, 512}, {512, 512}, {512, 512}}).build();
  for (const Scheduler scheduler : {Scheduler::automatic, Scheduler::l2_windows}) {
    p.config.plan.scheduler = scheduler;
    EXPECT_TRUE(close_to_reference(run_emulated<Config>(p, 5), p)) << static_cast<int>(scheduler);
  }
}

TYPED_TEST(SimtAttention, WindowsOnBothSides) {
  using Config = typename TypeParam::template Config<BFloat, 64>;
  for (const auto& [left, right] : {std::pair{0, 0}, {5, 0}, {40, 3}, {-1, 10}, {100, -1}}) {
    const Problem p = builder(DType::bf16, 64)
                          .variant(variants::softmax({.window_left = left, .window_right = right}))
                          .lengths(mixed_lengths())
                          .build();
    EXPECT_TRUE(close_to_reference(run_emulated<Config>(p), p)) << left << ' ' << right;
  }
}

TYPED_TEST(SimtAttention, ScalesOfEverySign) {
  using Config = typename TypeParam::template Config<BFloat, 64>;
  for (const double scale : {-0.3, 1e-39, 1e-30, 2.0}) {
    const Problem p =
        builder(DType::bf16, 64).sm_scale(scale).lengths(mixed_lengths()).causal().build();
    EXPECT_TRUE(close_to_reference(run_emulated<Config>(p), p)) << scale;
  }
}

TYPED_TEST(SimtAttention, E3LargeLogits) {
  using Config = typename TypeParam::template Config<BFloat, 128>;
  for (const double key : {-48.0, 48.0}) {
    Problem p = builder(DType::bf16, 128).lengths({{1, 1}, {1, 2}, {20, 2}}).build();
    set_queries(p, 40);
    set_keys(p, [&](std::int64_t, std::int64_t) { return key; });
    EXPECT_TRUE(close_to_reference(run_emulated<Config>(p), p));
  }
}

TYPED_TEST(SimtAttention, SinksJoinOnce) {
  using Config = typename TypeParam::template Config<BFloat, 64>;
  const Problem p = builder(DType::bf16, 64)
                        .variant(variants::softmax({.causal = true, .sinks = true}))
                        .lengths(mixed_lengths())
                        .build();
  for (const int ctas : {1, 7}) EXPECT_TRUE(close_to_reference(run_emulated<Config>(p, ctas), p));
}

TYPED_TEST(SimtAttention, LseInBaseTwo) {
  using Config = typename TypeParam::template Config<BFloat, 64>;
  const Problem p =
      builder(DType::bf16, 64).lse_base(LseBase::two).lengths(mixed_lengths()).causal().build();
  EXPECT_TRUE(close_to_reference(run_emulated<Config>(p), p));
}

struct Float32 : Plain<float, 64> {
  using TileClasses = OneRow;
};

TEST(SimtPortable, Float32OnCudaCores) {
  ProblemBuilder b = builder(DType::f32, 64).causal();
  const Problem p = b.lengths({{1, 300}, {9, 70}, {1, 0}}).build();
  DeviceLimits device = simt::device_of(3);
  device.max_query_tile = 1;
  EXPECT_TRUE(close_to_reference(run_emulated<Float32>(p, device), p));
}

TYPED_TEST(SimtAttention, RowsAtAddressesOfTheirOwn) {
  using Config = typename TypeParam::template Config<BFloat, 64>;
  // A head of 64 in rows of 68 elements: no row but the first of a page begins at 16 bytes.
  Problem p = builder(DType::bf16, 64).page_size(4).lengths({{1, 100}, {9, 33}}).build();
  HostTensor k(DType::bf16, {40, 4, 2, 68}), v(DType::bf16, {40, 4, 2, 68}),
      q(DType::bf16, {10, 4, 67});
  const auto move = [](TensorView& from, HostTensor& into) {
    const TensorView to =
        into.whole().slice(into.whole().rank() - 1, 0, 64).slice(0, 0, from.size(0));
    const std::vector<double> values = to_doubles(from);
    auto next = values.begin();
    fill(to, [&] { return *next++; });
    from = to;
  };
  ASSERT_LE(p.k.size(0), 40);
  move(p.k, k);
  move(p.v, v);
  move(p.q, q);
  EXPECT_TRUE(close_to_reference(run_emulated<Config>(p), p));
}

TYPED_TEST(SimtAttention, PoolsThatRunBackwards) {
  using Config = typename TypeParam::template Config<Half, 64>;
  Problem p = builder(DType::f16, 64).causal().lengths(mixed_lengths()).build();
  const auto last = static_cast<std::int32_t>(p.k.size(0)) - 1;
  for (std::int32_t& page : p.matrix.indices) page = last - page;
  for (TensorView* pool : {&p.k, &p.v}) {
    std::vector<std::int64_t> strides(pool->strides().begin(), pool->strides().end());
    strides[0] = -strides[0];
    *pool = TensorView(pool->select(0, last).data(), pool->dtype(), pool->shape(), strides);
  }
  EXPECT_TRUE(close_to_reference(run_emulated<Config>(p), p));
}

TYPED_TEST(SimtAttention, LogitsNearTheLargestFloat) {
  using Config = typename TypeParam::template Config<BFloat, 64>;
  // 2.9e38 and half of it: log2 e times the first is no float, their difference is a weight of 0.
  Problem p = builder(DType::bf16, 64).sm_scale(1.0).lengths({{1, 2}, {20, 70}}).build();
  set_queries(p, 1e19);
  set_keys(p, [](std::int64_t, std::int64_t j) { return j == 1 ? 4.5e17 : 2.25e17; });
  const Output output = run_emulated<Config>(p);
  const Output exact = run_reference(p);
  for (std::size_t i = 0; i < exact.lse.size(); ++i)
    EXPECT_NEAR(output.lse[i] / exact.lse[i], 1.0, 1e-5) << i;
  EXPECT_TRUE(close_to_reference(output, p));
}

TYPED_TEST(SimtAttention, LogitsOfEverySizeBetween) {
  using Config = typename TypeParam::template Config<BFloat, 64>;
  // Rows whose largest logit is 10^n, tile after tile larger: weights must come out of differences.
  for (double size = 1e2; size < 1e37; size *= 1e3) {
    Problem p = builder(DType::bf16, 64).sm_scale(1.0).lengths({{1, 200}, {20, 300}}).build();
    set_queries(p, 1.0);
    set_keys(p, [&](std::int64_t, std::int64_t j) {
      return size / 64 * (1.0 + std::floor(static_cast<double>(j) / 50) / 4);
    });
    const Output output = run_emulated<Config>(p);
    const Output exact = run_reference(p);
    for (std::size_t i = 0; i < exact.lse.size(); ++i)
      EXPECT_NEAR(output.lse[i] / exact.lse[i], 1.0, 1e-5) << size;
    EXPECT_TRUE(close_to_reference(output, p)) << size;
  }
}

}  // namespace
}  // namespace trencadis::testing
