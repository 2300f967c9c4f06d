// Each hook is called with the right coordinates, and Chain composes hooks in order. Every test
// here fails if its hook is not called.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "cpu/variant_tiles.h"

namespace trencadis::cpu {
namespace {

using namespace variant;

struct NoParams {
  static NoParams load(const contract::VariantArgs&) { return {}; }
};

constexpr contract::VariantArgs kNoArgs{};
// Fused rows 1, 2, 3 of a group of 2: (token 0, head 7), (token 1, head 6), (token 1, head 7).
constexpr TileCoord kTile{.request = 5,
                          .first_row = 1,
                          .rows = 3,
                          .group = 2,
                          .kv_head = 3,
                          .qo_begin = 100,
                          .qo_len = 4,
                          .kv_len = 50};
constexpr int kPositions[] = {8, 9, 30};

/// Every coordinate in one number, so that any that is wrong shows.
float code(const RowCoord& at) {
  return static_cast<float>(at.request * 1000000 + at.qo_token * 1000 + at.qo_pos * 100 +
                            at.qo_head * 10 + at.qo_len) +
         static_cast<float>(at.kv_len) / 64;
}
float code(const KeyCoord& at) {
  return static_cast<float>(at.request * 10000 + at.kv_pos * 100 + at.kv_head) +
         static_cast<float>(at.kv_len) / 64;
}

RowCoord row_at(int i) {
  const int fused = kTile.first_row + i;
  return {5, 100 + fused / 2, fused / 2, 6 + fused % 2, 4, 50};
}

struct CodedQuery {
  static constexpr HookSet hooks = kQueryTransform;
  template <class P, class Row>
  static float query_transform(const P&, const Row& row, int dim, const RowCoord& at) {
    // The neighbour's element: rows are read before they are written.
    return row[(dim + 1) % row.size()] + code(at);
  }
};

TEST(Hooks, QueryTransform) {
  constexpr VariantOps ops = make_variant_ops<CodedQuery, NoParams>();
  std::vector<float> q{1, 2, -1, 3, 4, -1, 5, 6, -1};
  ops.query(kNoArgs, kTile, q.data(), 2, 3);
  for (int i = 0; i < 3; ++i) {
    const auto at = static_cast<std::size_t>(3 * i);
    EXPECT_EQ(q[at], static_cast<float>(2 * i + 2) + code(row_at(i)));
    EXPECT_EQ(q[at + 1], static_cast<float>(2 * i + 1) + code(row_at(i)));
    EXPECT_EQ(q[at + 2], -1.0f);
  }
}

struct CodedKey {
  static constexpr HookSet hooks = kKeyTransform | kValueTransform;
  template <class P, class Row>
  static float key_transform(const P&, const Row& row, int dim, const KeyCoord& at) {
    return row[row.size() - 1 - dim] + code(at);
  }
  template <class P, class Row>
  static float value_transform(const P&, const Row& row, int dim, const KeyCoord& at) {
    return row[dim] - code(at);
  }
};

TEST(Hooks, KeyTransform) {
  constexpr VariantOps ops = make_variant_ops<CodedKey, NoParams>();
  std::vector<float> k{1, 2, 3, 4, 5, 6};
  ops.key(kNoArgs, kTile, kPositions, 3, k.data(), 2, 2);
  for (int c = 0; c < 3; ++c) {
    const KeyCoord at{5, kPositions[c], 3, 50};
    EXPECT_EQ(k[static_cast<std::size_t>(2 * c)], static_cast<float>(2 * c + 2) + code(at));
    EXPECT_EQ(k[static_cast<std::size_t>(2 * c + 1)], static_cast<float>(2 * c + 1) + code(at));
  }
}

TEST(Hooks, ValueTransform) {
  constexpr VariantOps ops = make_variant_ops<CodedKey, NoParams>();
  std::vector<float> v{1, 2, 3};
  ops.value(kNoArgs, kTile, kPositions, 3, v.data(), 1, 1);
  for (int c = 0; c < 3; ++c)
    EXPECT_EQ(v[static_cast<std::size_t>(c)],
              static_cast<float>(c + 1) - code(KeyCoord{5, kPositions[c], 3, 50}));
}

struct CodedLogit {
  static constexpr HookSet hooks = kLogitsTransform | kLogitsMask;
  template <class P>
  static float logits_transform(const P&, float logit, const LogitCoord& at) {
    const RowCoord row{at.request, at.qo_token, at.qo_pos, at.qo_head, at.qo_len, at.kv_len};
    return logit + code(row) + static_cast<float>(at.kv_pos) + static_cast<float>(at.kv_head) / 8;
  }
  template <class P>
  static bool logits_mask(const P&, const LogitCoord& at) {
    return at.kv_pos != 9 || at.qo_head == 7;
  }
};

TEST(Hooks, LogitsTransformThenMask) {
  constexpr VariantOps ops = make_variant_ops<CodedLogit, NoParams>();
  for (bool use_softmax : {true, false}) {
    std::vector<float> s(9, 0.5f);
    ops.logits(kNoArgs, kTile, kPositions, 3, s.data(), 3, use_softmax);
    for (int i = 0; i < 3; ++i)
      for (int c = 0; c < 3; ++c) {
        const bool hidden = kPositions[c] == 9 && row_at(i).qo_head != 7;
        const float hidden_value = use_softmax ? -std::numeric_limits<float>::infinity() : 0.0f;
        const float shown = 0.5f + code(row_at(i)) + static_cast<float>(kPositions[c]) + 3.0f / 8;
        EXPECT_EQ(s[static_cast<std::size_t>(3 * i + c)], hidden ? hidden_value : shown);
      }
  }
}

struct CodedOutput {
  static constexpr HookSet hooks = kOutputTransform;
  template <class P>
  static float output_transform(const P&, float value, int dim, const RowCoord& at) {
    return value * static_cast<float>(dim + 1) + code(at);
  }
};

TEST(Hooks, OutputTransform) {
  constexpr VariantOps ops = make_variant_ops<CodedOutput, NoParams>();
  std::vector<float> o{1, 2, 3, 4, 5, 6};
  ops.output(kNoArgs, kTile, o.data(), 2, 2);
  for (int i = 0; i < 3; ++i)
    for (int d = 0; d < 2; ++d)
      EXPECT_EQ(o[static_cast<std::size_t>(2 * i + d)],
                static_cast<float>((2 * i + d + 1) * (d + 1)) + code(row_at(i)));
}

struct Reverse {
  static constexpr HookSet hooks = kQueryTransform | kKeyTransform | kValueTransform;
  template <class P, class Row>
  static float query_transform(const P&, const Row& row, int dim, const RowCoord&) {
    return row[row.size() - 1 - dim];
  }
  template <class P, class Row>
  static float key_transform(const P&, const Row& row, int dim, const KeyCoord&) {
    return row[row.size() - 1 - dim];
  }
  template <class P, class Row>
  static float value_transform(const P&, const Row& row, int dim, const KeyCoord&) {
    return row[row.size() - 1 - dim];
  }
};

/// row[d] * (d + 1): does not commute with Reverse.
struct Ramp {
  static constexpr HookSet hooks = kQueryTransform | kKeyTransform | kValueTransform;
  template <class P, class Row>
  static float query_transform(const P&, const Row& row, int dim, const RowCoord&) {
    return row[dim] * static_cast<float>(dim + 1);
  }
  template <class P, class Row>
  static float key_transform(const P&, const Row& row, int dim, const KeyCoord&) {
    return row[dim] * static_cast<float>(dim + 1);
  }
  template <class P, class Row>
  static float value_transform(const P&, const Row& row, int dim, const KeyCoord&) {
    return row[dim] * static_cast<float>(dim + 1);
  }
};

using InOrder = Chain<CodedOutput, Reverse, Ramp>;
using OtherOrder = Chain<Ramp, CodedOutput, Reverse>;

TEST(Chain, RowsGoThroughFunctorsInOrder) {
  constexpr VariantOps in_order = make_variant_ops<InOrder, NoParams>();
  constexpr VariantOps other_order = make_variant_ops<OtherOrder, NoParams>();
  const int one_position[] = {4};
  TileCoord tile = kTile;
  tile.rows = 1;
  std::vector<float> row{1, 10, 100};
  in_order.query(kNoArgs, tile, row.data(), 3, 3);
  EXPECT_EQ(row, (std::vector<float>{100, 20, 3}));
  row = {1, 10, 100};
  other_order.key(kNoArgs, tile, one_position, 1, row.data(), 3, 3);
  EXPECT_EQ(row, (std::vector<float>{300, 20, 1}));
  row = {1, 10, 100};
  in_order.value(kNoArgs, tile, one_position, 1, row.data(), 3, 3);
  EXPECT_EQ(row, (std::vector<float>{100, 20, 3}));
}

TEST(Chain, ElementFormEqualsRowForm) {
  // The form that device code uses: elements on demand, without a row in memory.
  const float elements[] = {1, 10, 100};
  const SourceRow row{elements, 3};
  const KeyCoord key{};
  for (int d = 0; d < 3; ++d) {
    EXPECT_EQ(InOrder::query_transform(NoParams{}, row, d, RowCoord{}), (d + 1) * elements[2 - d]);
    EXPECT_EQ(InOrder::key_transform(NoParams{}, row, d, key), (d + 1) * elements[2 - d]);
    EXPECT_EQ(OtherOrder::value_transform(NoParams{}, row, d, key), (3 - d) * elements[2 - d]);
  }
}

struct Twice {
  static constexpr HookSet hooks = kLogitsTransform | kOutputTransform;
  template <class P>
  static float logits_transform(const P&, float logit, const LogitCoord&) {
    return 2 * logit;
  }
  template <class P>
  static float output_transform(const P&, float value, int, const RowCoord&) {
    return 2 * value;
  }
};

struct PlusOneAndEven {
  static constexpr HookSet hooks = kLogitsTransform | kOutputTransform | kLogitsMask;
  template <class P>
  static float logits_transform(const P&, float logit, const LogitCoord&) {
    return logit + 1;
  }
  template <class P>
  static float output_transform(const P&, float value, int, const RowCoord&) {
    return value + 1;
  }
  template <class P>
  static bool logits_mask(const P&, const LogitCoord& at) {
    return at.kv_pos % 2 == 0;
  }
};

TEST(Chain, LogitsAndOutputsInOrderAndMasksTogether) {
  const NoParams p;
  const LogitCoord at{};
  using A = Chain<Twice, PlusOneAndEven>;
  using B = Chain<PlusOneAndEven, Twice>;
  EXPECT_EQ(A::logits_transform(p, 5, at), 11);
  EXPECT_EQ(B::logits_transform(p, 5, at), 12);
  EXPECT_EQ(A::output_transform(p, 5, 0, RowCoord{}), 11);
  EXPECT_EQ(B::output_transform(p, 5, 0, RowCoord{}), 12);

  using Masks = Chain<PlusOneAndEven, CodedLogit, PlusOneAndEven>;
  const auto kept = [&p](int kv_pos) {
    LogitCoord key{};
    key.kv_pos = kv_pos;
    return Masks::logits_mask(p, key);
  };
  EXPECT_TRUE(kept(8));
  EXPECT_FALSE(kept(7));
  EXPECT_FALSE(kept(9));
  EXPECT_EQ(Masks::hooks, kLogitsTransform | kOutputTransform | kLogitsMask);
}

TEST(Chain, OfNothingHasNoFunctions) {
  constexpr VariantOps ops = make_variant_ops<Chain<Chain<>, Chain<>>, NoParams>();
  EXPECT_EQ(ops.hooks, 0u);
  EXPECT_FALSE(ops.query || ops.key || ops.value || ops.logits || ops.output);
}

}  // namespace
}  // namespace trencadis::cpu
