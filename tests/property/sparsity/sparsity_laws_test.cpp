// One law for each way to store a KV cache: the block-sparse form stands for the source's own mask
// and names the source's own tokens, both computed here without the builders.
#include <gtest/gtest.h>
#include <trencadis/block_sparse.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

#include "support/scale.h"

namespace trencadis {
namespace {

constexpr int kCases = 1000;

using Indices = std::vector<std::int64_t>;
using Bytes = std::vector<std::uint8_t>;

class Random {
 public:
  explicit Random(int seed) : engine_(static_cast<std::uint64_t>(seed)) {}
  std::int64_t from(std::int64_t first, std::int64_t last) {
    return std::uniform_int_distribution<std::int64_t>(first, last)(engine_);
  }
  bool chance(double p) { return std::bernoulli_distribution(p)(engine_); }
  Indices shuffled(std::int64_t count) {
    Indices ids(static_cast<std::size_t>(count));
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), engine_);
    return ids;
  }

 private:
  std::mt19937_64 engine_;
};

void for_each_case(const std::function<void(Random&)>& law) {
  for (int seed = 0; seed < testing::scaled(kCases) && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Random random(seed);
    law(random);
  }
}

/// Where the tokens of block row r lie: block * B_c + offset.
Indices slots_of(const BlockSparse& matrix, std::size_t r) {
  Indices slots;
  for (std::int64_t t = 0; t < matrix.kv_lens[r]; ++t) {
    const std::int64_t entry = matrix.indptr[r] + t / matrix.block_cols;
    const std::int64_t block =
        matrix.indices.empty() ? entry : matrix.indices[static_cast<std::size_t>(entry)];
    slots.push_back(block * matrix.block_cols + t % matrix.block_cols);
  }
  return slots;
}

/// A page table as an engine's allocator leaves it, and the slots of each request's tokens.
struct Table {
  std::int64_t page_size = 1;
  Indices indptr{0}, indices, kv_lens, last_page_lens;
  std::vector<Indices> slots;
};

Table random_table(Random& random, std::int64_t least_tokens = 0) {
  Table table;
  table.page_size = random.from(1, 20);
  const Indices pages = random.shuffled(64);
  std::size_t next_page = 0;
  for (std::int64_t b = random.from(0, 6); b > 0; --b) {
    const std::int64_t count = random.from(least_tokens > 0 ? 1 : 0, 8);
    const std::int64_t last = count == 0 ? 0 : random.from(1, table.page_size);
    Indices slots;
    for (std::int64_t p = 0; p < count; ++p) {
      table.indices.push_back(pages[next_page++]);
      const std::int64_t fill = p + 1 == count ? last : table.page_size;
      for (std::int64_t t = 0; t < fill; ++t) {
        slots.push_back(table.indices.back() * table.page_size + t);
      }
    }
    table.indptr.push_back(static_cast<std::int64_t>(table.indices.size()));
    table.kv_lens.push_back(static_cast<std::int64_t>(slots.size()));
    table.last_page_lens.push_back(last);
    table.slots.push_back(std::move(slots));
  }
  return table;
}

Indices random_queries(Random& random, std::size_t requests) {
  Indices indptr{0};
  for (std::size_t b = 0; b < requests; ++b) indptr.push_back(indptr.back() + random.from(0, 5));
  return indptr;
}

/// Every request's tokens, all of them visible to all of its rows.
void expect_stands_for(const BlockSparse& matrix, const std::vector<Indices>& slots,
                       Random& random) {
  ASSERT_EQ(matrix.kv_lens.size(), slots.size());
  const Indices qo_indptr = random_queries(random, slots.size());
  Indices kv_lens;
  for (const Indices& tokens : slots) kv_lens.push_back(static_cast<std::int64_t>(tokens.size()));
  for (std::size_t b = 0; b < slots.size(); ++b) {
    EXPECT_EQ(slots_of(matrix, b), slots[b]);
    const Bytes all(static_cast<std::size_t>((qo_indptr[b + 1] - qo_indptr[b]) * kv_lens[b]), 1);
    EXPECT_EQ(expand(matrix, qo_indptr, kv_lens, static_cast<std::int64_t>(b)), all);
  }
}

TEST(SparsityLaws, PageTableWithLengths) {
  for_each_case([](Random& random) {
    Table table = random_table(random);
    expect_stands_for(from_page_table(table.indptr, table.indices, table.kv_lens, table.page_size),
                      table.slots, random);
  });
}

TEST(SparsityLaws, PageTableWithLastPageLengths) {
  for_each_case([](Random& random) {
    Table table = random_table(random);
    expect_stands_for(
        from_last_page_lens(table.indptr, table.indices, table.last_page_lens, table.page_size),
        table.slots, random);
  });
}

TEST(SparsityLaws, PaddedTable) {
  for_each_case([](Random& random) {
    Table table = random_table(random);
    const std::int64_t width = random.from(8, 10);
    Indices padded;
    for (std::size_t b = 0; b < table.slots.size(); ++b) {
      for (std::int64_t p = 0; p < width; ++p) {
        const std::int64_t entry = table.indptr[b] + p;
        padded.push_back(entry < table.indptr[b + 1]
                             ? table.indices[static_cast<std::size_t>(entry)]
                             : random.from(-1, 0));
      }
    }
    expect_stands_for(from_padded_table(padded, width, table.kv_lens, table.page_size), table.slots,
                      random);
  });
}

TEST(SparsityLaws, ContiguousRagged) {
  for_each_case([](Random& random) {
    Indices kv_indptr{0};
    std::vector<Indices> slots;
    for (std::int64_t b = random.from(0, 6); b > 0; --b) {
      Indices tokens(static_cast<std::size_t>(random.from(0, 30)));
      std::iota(tokens.begin(), tokens.end(), kv_indptr.back());
      kv_indptr.push_back(kv_indptr.back() + static_cast<std::int64_t>(tokens.size()));
      slots.push_back(std::move(tokens));
    }
    expect_stands_for(from_ragged(kv_indptr), slots, random);
  });
}

// The source grows from the root down: each node's tokens are its parent's and then its own.
TEST(SparsityLaws, RadixTreeIsItsFlatForm) {
  for_each_case([](Random& random) {
    const std::int64_t page_size = random.from(1, 8);
    const std::int64_t count = random.from(1, 10);
    const Indices pages = random.shuffled(64);
    std::size_t next_page = 0;
    Indices parents;
    std::vector<bool> is_parent(static_cast<std::size_t>(count), false);
    for (std::int64_t n = 0; n < count; ++n) {
      parents.push_back(random.from(-1, n - 1));
      if (parents.back() >= 0) is_parent[static_cast<std::size_t>(parents.back())] = true;
    }
    RadixTree tree;
    std::vector<Indices> tokens_of_node;
    for (std::size_t n = 0; n < static_cast<std::size_t>(count); ++n) {
      RadixTree::Node node;
      node.parent = static_cast<std::int32_t>(parents[n]);
      Indices tokens =
          parents[n] < 0 ? Indices{} : tokens_of_node[static_cast<std::size_t>(parents[n])];
      const std::int64_t own = random.from(0, 4);
      for (std::int64_t p = 0; p < own; ++p) {
        const bool may_be_short = p + 1 == own && !is_parent[n];
        const std::int64_t fill = may_be_short ? random.from(1, page_size) : page_size;
        node.pages.push_back(static_cast<std::int32_t>(pages[next_page++]));
        node.tokens += fill;
        for (std::int64_t t = 0; t < fill; ++t) {
          tokens.push_back(node.pages.back() * page_size + t);
        }
      }
      tree.nodes.push_back(std::move(node));
      tokens_of_node.push_back(std::move(tokens));
    }
    std::vector<Indices> slots;
    for (std::int64_t b = random.from(0, 6); b > 0; --b) {
      tree.leaves.push_back(static_cast<std::int32_t>(random.from(-1, count - 1)));
      slots.push_back(tree.leaves.back() < 0
                          ? Indices{}
                          : tokens_of_node[static_cast<std::size_t>(tree.leaves.back())]);
    }
    expect_stands_for(from_radix_tree(tree, page_size), slots, random);
  });
}

/// sees[i][j]: j is i or an ancestor of i. Children inherit what their parents see.
std::vector<std::vector<bool>> closure(const SpeculationTree& tree) {
  std::vector<std::vector<bool>> sees;
  for (std::size_t i = 0; i < tree.parents.size(); ++i) {
    sees.push_back(tree.parents[i] < 0 ? std::vector<bool>(tree.parents.size(), false)
                                       : sees[static_cast<std::size_t>(tree.parents[i])]);
    sees.back()[i] = true;
  }
  return sees;
}

TEST(SparsityLaws, SpeculationTree) {
  for_each_case([](Random& random) {
    const Table table = random_table(random, 1);
    std::vector<SpeculationTree> trees;
    Indices qo_indptr{0};
    for (const std::int64_t kv_len : table.kv_lens) {
      SpeculationTree tree;
      for (std::int64_t n = random.from(0, std::min<std::int64_t>(kv_len, 12)); n > 0; --n) {
        tree.parents.push_back(static_cast<std::int32_t>(
            random.from(-1, static_cast<std::int64_t>(tree.parents.size()) - 1)));
      }
      qo_indptr.push_back(qo_indptr.back() + static_cast<std::int64_t>(tree.parents.size()));
      trees.push_back(std::move(tree));
    }
    const BlockSparse matrix =
        from_speculation_trees(table.indptr, table.indices, table.kv_lens, trees, table.page_size);
    for (std::size_t b = 0; b < trees.size(); ++b) {
      EXPECT_EQ(slots_of(matrix, b), table.slots[b]);
      Bytes mask;
      for (const std::vector<bool>& drafts : closure(trees[b])) {
        mask.insert(mask.end(), table.slots[b].size() - drafts.size(), 1);
        mask.insert(mask.end(), drafts.begin(), drafts.end());
      }
      EXPECT_EQ(expand(matrix, qo_indptr, table.kv_lens, static_cast<std::int64_t>(b)), mask);
    }
  });
}

struct MaskShape {
  std::int64_t rows, cols, block_rows, block_cols;
};

MaskShape random_shape(Random& random) {
  return {random.from(0, 24), random.from(0, 40), random.from(1, 9), random.from(1, 9)};
}

/// Block j of contiguous KV holds the tokens of the logical column j.
void expect_contiguous_storage(const BlockSparse& matrix) {
  EXPECT_EQ(matrix.positions, matrix.indices);
  for (std::size_t r = 0; r < matrix.kv_lens.size(); ++r) {
    const Indices slots = slots_of(matrix, r);
    EXPECT_TRUE(std::is_sorted(slots.begin(), slots.end()));
  }
}

TEST(SparsityLaws, BooleanMask) {
  for_each_case([](Random& random) {
    const MaskShape shape = random_shape(random);
    // From almost empty to almost full, with runs that fill whole blocks.
    const double density = static_cast<double>(random.from(0, 4)) / 4;
    const std::int64_t run = random.from(1, 12);
    Bytes mask;
    std::uint8_t keep = 0;
    for (std::int64_t i = 0; i < shape.rows * shape.cols; ++i) {
      if (i % run == 0) keep = random.chance(density) ? 1 : 0;
      mask.push_back(keep);
    }
    const BlockSparse matrix =
        from_mask(mask, shape.rows, shape.cols, shape.block_rows, shape.block_cols);
    expect_contiguous_storage(matrix);
    EXPECT_EQ(expand(matrix, Indices{0, shape.rows}, Indices{shape.cols}, 0), mask);

    // Element bits are kept where blocks alone would say too much, and only there.
    BlockSparse blocks = matrix;
    blocks.mask.reset();
    const Bytes by_blocks = expand(blocks, Indices{0, shape.rows}, Indices{shape.cols}, 0);
    EXPECT_EQ(matrix.mask.has_value(), by_blocks != mask);
  });
}

TEST(SparsityLaws, BlockMask) {
  for_each_case([](Random& random) {
    const MaskShape shape = random_shape(random);
    const std::int64_t width = (shape.cols + shape.block_cols - 1) / shape.block_cols;
    Bytes block_mask;
    for (std::int64_t r = 0; r < shape.rows; r += shape.block_rows) {
      for (std::int64_t c = 0; c < width; ++c) block_mask.push_back(random.chance(0.5) ? 1 : 0);
    }
    Bytes mask;
    for (std::int64_t i = 0; i < shape.rows; ++i) {
      for (std::int64_t j = 0; j < shape.cols; ++j) {
        mask.push_back(block_mask[static_cast<std::size_t>(i / shape.block_rows * width +
                                                           j / shape.block_cols)]);
      }
    }
    const BlockSparse matrix =
        from_block_mask(block_mask, shape.rows, shape.cols, shape.block_rows, shape.block_cols);
    EXPECT_FALSE(matrix.mask.has_value());
    expect_contiguous_storage(matrix);
    EXPECT_EQ(expand(matrix, Indices{0, shape.rows}, Indices{shape.cols}, 0), mask);
  });
}

TEST(SparsityLaws, PackedMasksHoldEveryBit) {
  for_each_case([](Random& random) {
    Indices qo_indptr{0}, kv_lens;
    std::vector<Bytes> storage;
    std::vector<TensorView> masks;
    for (std::int64_t b = random.from(0, 4); b > 0; --b) {
      const std::int64_t rows = random.from(0, 9), cols = random.from(0, 20);
      const std::int64_t stride = cols + random.from(0, 3);
      Bytes bytes(static_cast<std::size_t>(rows * stride));
      for (std::uint8_t& byte : bytes) byte = random.chance(0.5) ? 1 : 0;
      storage.push_back(std::move(bytes));
      const std::int64_t shape[] = {rows, cols}, strides[] = {stride, 1};
      masks.emplace_back(storage.back().data(), DType::u8, shape, strides);
      qo_indptr.push_back(qo_indptr.back() + rows);
      kv_lens.push_back(cols);
    }
    const PackedMask packed = pack_masks(masks, qo_indptr, kv_lens);
    ASSERT_EQ(packed.indptr.size(), masks.size() + 1);
    for (std::size_t b = 0; b < masks.size(); ++b) {
      const std::int64_t rows = masks[b].size(0), cols = masks[b].size(1);
      EXPECT_EQ(packed.indptr[b + 1] - packed.indptr[b], (rows * cols + 7) / 8);
      for (std::int64_t i = 0; i < rows * cols; ++i) {
        const auto byte = packed.bits[static_cast<std::size_t>(packed.indptr[b] + i / 8)];
        const auto source = static_cast<std::size_t>(i / cols * masks[b].stride(0) + i % cols);
        EXPECT_EQ((byte >> (i % 8)) & 1, storage[b][source]);
      }
    }
  });
}

}  // namespace
}  // namespace trencadis
