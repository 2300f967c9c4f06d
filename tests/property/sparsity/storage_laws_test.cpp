// Storage says where keys lie and which are seen, nothing else: every form, run by the engine on
// either backend, gives what float64 gives over the same tokens.
#include <gtest/gtest.h>

#include <random>

#include "support/compare.h"
#include "support/problem.h"
#include "support/run.h"
#include "support/scale.h"

namespace trencadis::testing {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Indices = std::vector<std::int32_t>;

class StorageLaws : public ::testing::TestWithParam<BackendKind> {
 protected:
  void expect_right(const Problem& problem) {
    EXPECT_TRUE(close_to_reference(run_engine(problem, GetParam()), problem));
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, StorageLaws,
                         ::testing::Values(BackendKind::cpu, BackendKind::reference),
                         [](const auto& test) { return std::string(to_string(test.param)); });

ProblemBuilder small(int seed) {
  ProblemBuilder builder;
  return builder.heads(4, 2).dims(32).seed(static_cast<std::uint64_t>(seed));
}

Variant masked() {
  return variants::softmax({.custom_mask = true});
}

TEST_P(StorageLaws, ContiguousKeysEqualPages) {
  for (const KvLayout layout : {KvLayout::nhd, KvLayout::hnd}) {
    expect_right(small(1).lengths({{1, 70}, {9, 30}, {3, 0}}).ragged().layout(layout).build());
  }
}

TEST_P(StorageLaws, PageIdsChangeNothing) {
  const Problem problem = small(2).lengths({{1, 90}, {17, 33}}).causal().build();
  Problem moved = small(2).lengths({{1, 90}, {17, 33}}).causal().build();
  // The same pages in the opposite order of ids.
  const std::int64_t last = problem.k.size(0) - 1;
  for (const auto& [to, from] : {std::pair{moved.k, problem.k}, std::pair{moved.v, problem.v}}) {
    for (std::int64_t page = 0; page <= last; ++page) {
      const std::vector<double> values = to_doubles(from.select(0, page));
      std::size_t i = 0;
      fill(to.select(0, last - page), [&] { return values[i++]; });
    }
  }
  for (std::int32_t& page : moved.matrix.indices) page = static_cast<std::int32_t>(last) - page;
  EXPECT_TRUE(same_bits(run_engine(moved, GetParam()), run_engine(problem, GetParam())));
}

TEST_P(StorageLaws, RadixFormEqualsFlatForm) {
  RadixTree tree;
  tree.nodes = {{-1, {7, 2}, 32}, {0, {5}, 9}, {0, {1, 3}, 32}, {2, {6}, 1}};
  tree.leaves = {1, 3, 0, 2};
  const BlockSparse radix = from_radix_tree(tree, 16);
  const BlockSparse flat =
      from_page_table(Indices{0, 3, 8, 10, 14}, Indices{7, 2, 5, 7, 2, 1, 3, 6, 7, 2, 7, 2, 1, 3},
                      Indices{41, 65, 32, 64}, 16);
  const std::vector<Lengths> lengths{{1, 41}, {5, 65}, {2, 32}, {1, 64}};
  const Problem problem = small(3).lengths(lengths).matrix(radix).causal().build();
  expect_right(problem);
  const Problem same = small(3).lengths(lengths).matrix(flat).causal().build();
  EXPECT_TRUE(same_bits(run_engine(same, GetParam()), run_engine(problem, GetParam())));
}

TEST_P(StorageLaws, SpeculationTreesHideSiblings) {
  const std::vector<SpeculationTree> trees{{{-1, 0, 0, 1, 1, 2}}, {{-1}}, {{-1, -1, 1}}};
  const BlockSparse matrix = from_speculation_trees(
      Indices{0, 5, 6, 8}, Indices{4, 0, 9, 2, 7, 1, 3, 6}, Indices{70, 16, 20}, trees, 16);
  expect_right(
      small(4).lengths({{6, 70}, {1, 16}, {3, 20}}).matrix(matrix).variant(masked()).build());
}

// Block rows of one request that read different blocks; a short last block; rows that see nothing.
TEST_P(StorageLaws, BooleanMasksInBlocksOfAnyShape) {
  for (int seed = 0; seed < scaled(40); ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    const auto from = [&](std::int64_t first, std::int64_t last) {
      return std::uniform_int_distribution<std::int64_t>(first, last)(random);
    };
    const std::int64_t rows = from(1, 40), cols = from(1, 200);
    const std::int64_t block_rows = from(1, 16), block_cols = from(1, 40);
    Bytes mask(static_cast<std::size_t>(rows * cols));
    const std::int64_t run = from(1, 50);
    std::uint8_t keep = 0;
    for (std::size_t i = 0; i < mask.size(); ++i) {
      if (static_cast<std::int64_t>(i) % run == 0) keep = static_cast<std::uint8_t>(from(0, 1));
      mask[i] = keep;
    }
    const BlockSparse matrix = from_mask(mask, rows, cols, block_rows, block_cols);
    ProblemBuilder builder = small(seed);
    builder.lengths({{rows, cols}}).matrix(matrix);
    if (matrix.mask) builder.variant(masked());
    if (seed % 2 == 0) builder.ragged();
    SCOPED_TRACE(::testing::Message()
                 << "seed " << seed << ": [" << rows << ", " << cols << "] in blocks of ["
                 << block_rows << ", " << block_cols << "]");
    expect_right(builder.build());
  }
}

TEST_P(StorageLaws, BlockMasksUnderACausalBound) {
  const Bytes blocks{1, 0, 0, 1,  //
                     0, 1, 1, 0,  //
                     1, 1, 0, 1};
  const BlockSparse matrix = from_block_mask(blocks, 20, 100, 8, 32);
  expect_right(small(5).lengths({{20, 100}}).matrix(matrix).causal().build());
  Variant window;
  window.bounds = {40, 3};
  expect_right(small(6).lengths({{20, 100}}).matrix(matrix).variant(window).build());
}

}  // namespace
}  // namespace trencadis::testing
