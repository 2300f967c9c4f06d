// Every stock variant and every hook in the CUDA loops, emulated, against the float64 reference,
// which has its own code for each functor.
#include <gtest/gtest.h>

#include <utility>

#include "simt/run_emulated.h"
#include "support/compare.h"
#include "support/problem.h"
#include "variant/stock.h"

namespace trencadis::testing {
namespace {

using collective::Tile;
using reference::At;
using reference::Hooks;
using simt::run_emulated;
using variants::Rope;

template <class V, class P, bool kSoftmax = true, class Tag = ptx::Half>
struct Configured {
  static constexpr int kHeadDimQk = 64, kHeadDimVo = 40;
  using Element = Tag;
  using Output = Tag;
  static constexpr bool kUseSoftmax = kSoftmax;
  static constexpr int kWarps = 4;
  using TileClasses = collective::TileClasses<Tile<1, 64, 3>, Tile<16, 64, 3>, Tile<32, 128, 3>,
                                              Tile<64, 128, 3>, Tile<128, 128, 3>>;
  using Functor = V;
  using Params = P;
};

/// The same by the Hopper template, whose rows are whole slabs.
template <class Portable, int kTokens, int kBuffers>
struct Ring : Portable {
  static constexpr int kHeadDimVo = 64;
  static constexpr int kWarps = 8;
  static constexpr int kQueryBuffers = kBuffers;
  using TileClasses = collective::TileClasses<Tile<16, kTokens, 4>, Tile<128, kTokens, 4>>;
};

ProblemBuilder builder(const Variant& variant, int dim_vo = 40) {
  ProblemBuilder b;
  b.heads(6, 2).dims(64, dim_vo).page_size(8).dtype(DType::f16).variant(variant);
  b.lengths({{1, 333}, {70, 129}, {1, 1}, {3, 40}, {0, 9}, {2, 0}, {30, 11}});
  return b;
}

/// Split and not split.
template <class Config>
void expect_right(const Problem& problem) {
  for (const int ctas : {1, 5})
    EXPECT_TRUE(
        close_to_reference(run_emulated<Config>(problem, ctas), problem, HookedRows::rounded))
        << ctas;
}

/// By the Hopper template.
template <class Portable>
void expect_right_in_a_ring(const Problem& problem) {
  expect_right<Ring<Portable, 128, 2>>(problem);
  expect_right<Ring<Portable, 64, 1>>(problem);
}

template <class V, bool kSoftmax = true>
void expect_stock(const Variant& variant) {
  const Problem problem = builder(variant).build();
  expect_right<Configured<V, cpu::StockParams, kSoftmax>>(problem);
}

/// By both templates: a functor that the Hopper one takes.
template <class V, bool kSoftmax = true>
void expect_stock_of_both(const Variant& variant) {
  expect_stock<V, kSoftmax>(variant);
  const Problem problem = builder(variant, 64).build();
  expect_right_in_a_ring<Configured<V, cpu::StockParams, kSoftmax>>(problem);
}

using variant::Chain;

TEST(SimtVariants, SoftCap) {
  expect_stock_of_both<Chain<variant::SoftCap>>(variants::softmax({.soft_cap = 1.5}));
  expect_stock_of_both<Chain<variant::SoftCap>>(
      variants::softmax({.causal = true, .soft_cap = 1.5, .sinks = true}));
}
TEST(SimtVariants, Alibi) {
  expect_stock_of_both<Chain<variant::Alibi>>(variants::softmax({.causal = true, .alibi = true}));
}
TEST(SimtVariants, PackedMask) {
  expect_stock<Chain<variant::PackedMask>>(variants::softmax({.custom_mask = true}));
}
TEST(SimtVariants, PrefixLm) {
  expect_stock<Chain<variant::PrefixLm>>(variants::softmax({.prefix_lm = true}));
}
TEST(SimtVariants, Documents) {
  expect_stock<Chain<variant::DocumentMask>>(
      variants::softmax({.causal = true, .document_mask = true}));
}
TEST(SimtVariants, RopeOfEveryStyle) {
  using V = Chain<variant::Rope>;
  expect_stock<V>(variants::softmax({.causal = true, .rope = Rope{}}));
  expect_stock<V>(variants::softmax({.rope = Rope{.interleaved = true}}));
  expect_stock<V>(variants::softmax({.rope = Rope{.rotary_dim = 24}}));
  expect_stock<V>(variants::softmax({.rope = Rope{.explicit_positions = true}}));
}
TEST(SimtVariants, Sigmoid) {
  expect_stock_of_both<Chain<variant::Sigmoid>, false>(variants::sigmoid({.bias = -3.0}));
  expect_stock_of_both<Chain<variant::Sigmoid>, false>(
      variants::sigmoid({.causal = true, .window_left = 40}));
}
TEST(SimtVariants, EverythingThatTheHopperTemplateTakes) {
  expect_stock_of_both<Chain<variant::SoftCap, variant::Alibi>>(variants::softmax(
      {.window_left = 60, .window_right = 3, .soft_cap = 2.0, .alibi = true, .sinks = true}));
}
TEST(SimtVariants, Everything) {
  expect_stock<Chain<variant::Rope, variant::SoftCap, variant::Alibi, variant::PackedMask,
                     variant::PrefixLm, variant::DocumentMask>>(
      variants::softmax({.window_left = 60,
                         .soft_cap = 2.0,
                         .alibi = true,
                         .custom_mask = true,
                         .prefix_lm = true,
                         .document_mask = true,
                         .sinks = true,
                         .rope = Rope{.rotary_dim = 32}}));
}

// Hooks of a user's own; each depends on every coordinate that it is given.

struct NoParams {
  static NoParams load(const contract::VariantArgs&) { return {}; }
};

template <class V>
void expect_hook(const Hooks& oracle) {
  Variant variant = variants::softmax();
  for (const bool use_softmax : {true, false}) {
    variant.use_softmax = use_softmax;
    const Problem problem = builder(variant).hooks(oracle).build();
    if (use_softmax)
      expect_right<Configured<V, NoParams, true>>(problem);
    else
      expect_right<Configured<V, NoParams, false>>(problem);
  }
}

/// A hook that the Hopper template can call, though its kernels are the stock functors' alone.
template <class V>
void expect_hook_of_both(const Hooks& oracle) {
  expect_hook<V>(oracle);
  Variant variant = variants::softmax();
  for (const bool use_softmax : {true, false}) {
    variant.use_softmax = use_softmax;
    const Problem problem = builder(variant, 64).hooks(oracle).build();
    if (use_softmax)
      expect_right_in_a_ring<Configured<V, NoParams, true>>(problem);
    else
      expect_right_in_a_ring<Configured<V, NoParams, false>>(problem);
  }
}

struct Query {
  static constexpr variant::HookSet hooks = variant::kQueryTransform;
  template <class P, class Row>
  static float query_transform(const P&, const Row& row, int dim, const variant::RowCoord& at) {
    const int turn = (at.qo_pos + 2 * at.qo_head + 3 * at.request) % 5;
    return row[dim ^ 1] * (1.0f + 0.125f * static_cast<float>(turn));
  }
};
TEST(SimtVariants, QueryHook) {
  Hooks oracle;
  oracle.query = [](std::span<double> row, const At& at) {
    for (std::size_t d = 0; d + 1 < row.size(); d += 2) std::swap(row[d], row[d + 1]);
    for (double& x : row)
      x *= 1.0 + 0.125 * static_cast<double>((at.row + 2 * at.qo_head + 3 * at.request) % 5);
  };
  expect_hook_of_both<Query>(oracle);
}

struct Key {
  static constexpr variant::HookSet hooks = variant::kKeyTransform;
  template <class P, class Row>
  static float key_transform(const P&, const Row& row, int dim, const variant::KeyCoord& at) {
    return row[dim ^ 1] * (1.0f - 0.125f * ((at.kv_pos + at.kv_head + at.request) % 7));
  }
};
TEST(SimtVariants, KeyHook) {
  Hooks oracle;
  oracle.key = [](std::span<double> row, const At& at) {
    for (std::size_t d = 0; d + 1 < row.size(); d += 2) std::swap(row[d], row[d + 1]);
    for (double& x : row)
      x *= 1.0 - 0.125 * static_cast<double>((at.key + at.kv_head + at.request) % 7);
  };
  expect_hook<Key>(oracle);
}

struct Value {
  static constexpr variant::HookSet hooks = variant::kValueTransform;
  template <class P, class Row>
  static float value_transform(const P&, const Row& row, int dim, const variant::KeyCoord& at) {
    return row[dim] + 0.125f * static_cast<float>((at.kv_pos + at.kv_head + at.request) % 7);
  }
};
TEST(SimtVariants, ValueHook) {
  Hooks oracle;
  oracle.value = [](std::span<double> row, const At& at) {
    for (double& x : row) x += 0.125 * static_cast<double>((at.key + at.kv_head + at.request) % 7);
  };
  expect_hook<Value>(oracle);
}

struct Logits {
  static constexpr variant::HookSet hooks = variant::kLogitsTransform;
  template <class P>
  static float logits_transform(const P&, float logit, const variant::LogitCoord& at) {
    const int turn = (at.kv_pos + at.qo_pos + at.qo_head + at.request) % 9;
    return logit * 0.5f + 0.1f * static_cast<float>(turn);
  }
};
TEST(SimtVariants, LogitsHook) {
  Hooks oracle;
  oracle.logit = [](double s, const At& at) {
    return s * 0.5 + 0.1 * static_cast<double>((at.key + at.row + at.qo_head + at.request) % 9);
  };
  expect_hook_of_both<Logits>(oracle);
}

/// M4: hides keys by parity, by head and by request, and all keys of some rows.
struct Mask {
  static constexpr variant::HookSet hooks = variant::kLogitsMask;
  template <class P>
  static bool logits_mask(const P&, const variant::LogitCoord& at) {
    return ((at.kv_pos + at.qo_head) % 2 == 0) & (at.request != 3) & (at.qo_pos % 11 != 10);
  }
};
TEST(SimtVariants, MaskHook) {
  Hooks oracle;
  oracle.mask = [](const At& at) {
    return (at.key + at.qo_head) % 2 == 0 && at.request != 3 && at.row % 11 != 10;
  };
  expect_hook<Mask>(oracle);
}

struct Output {
  static constexpr variant::HookSet hooks = variant::kOutputTransform;
  template <class P>
  static float output_transform(const P&, float value, int dim, const variant::RowCoord& at) {
    return value * 2.0f + 0.125f * static_cast<float>((at.qo_token + at.qo_head) % 5) +
           0.01f * static_cast<float>(dim);
  }
};
TEST(SimtVariants, OutputHook) {
  Hooks oracle;
  oracle.output = [](std::span<double> row, const At& at) {
    for (std::size_t d = 0; d < row.size(); ++d)
      row[d] = row[d] * 2.0 + 0.125 * static_cast<double>((at.token + at.qo_head) % 5) +
               0.01 * static_cast<double>(d);
  };
  expect_hook_of_both<Output>(oracle);
}

/// Hides a stretch of keys whose memory is garbage from every row.
struct Hole {
  static constexpr variant::HookSet hooks = variant::kLogitsMask;
  template <class P>
  static bool logits_mask(const P&, const variant::LogitCoord& at) {
    return at.kv_pos < 20 || at.kv_pos >= 90;
  }
};
TEST(SimtVariants, G1GarbageUnderAMask) {
  Hooks oracle;
  oracle.mask = [](const At& at) { return at.key < 20 || at.key >= 90; };
  const Problem problem =
      builder(variants::softmax()).lengths({{1, 200}, {9, 130}, {70, 100}}).hooks(oracle).build();
  for (std::int64_t b = 0; b < 3; ++b) poison_keys(problem, b, 20, 90, kNan);
  expect_right<Configured<Hole, NoParams>>(problem);
}

/// Positions that are no storage order: every third block of the request's keys, in a view of its
/// own, under causality.
TEST(SimtVariants, RowsOfTheirOwnWithPositions) {
  BlockSparse matrix;
  matrix.block_cols = 8;
  matrix.indptr = {0, 6, 9};
  matrix.indices = {4, 9, 2, 7, 1, 11, 3, 5, 0};
  matrix.positions = {0, 3, 6, 9, 12, 15, 1, 2, 7};
  matrix.kv_lens = {45, 24};
  using Portable = Configured<Chain<>, NoParams>;
  for (const int dim_vo : {Portable::kHeadDimVo, 64}) {
    const Problem problem = builder(variants::softmax({.causal = true}), dim_vo)
                                .lengths({{40, 140}, {3, 64}})
                                .matrix(matrix)
                                .build();
    if (dim_vo == 64)
      expect_right_in_a_ring<Portable>(problem);
    else
      expect_right<Portable>(problem);
  }
}

}  // namespace
}  // namespace trencadis::testing
