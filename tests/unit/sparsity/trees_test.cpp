#include <trencadis/block_sparse.h>

#include "support/expect_error.h"

namespace trencadis {
namespace {

using ::testing::ElementsAre;
using testing::expect_error;
using Indices = std::vector<std::int32_t>;

// An empty root, a system prompt of two pages, and two continuations; one request ends at the
// prompt.
RadixTree shared_prompt() {
  RadixTree tree;
  tree.nodes = {{-1, {}, 0}, {0, {9, 4}, 8}, {1, {1}, 3}, {1, {2, 3}, 8}};
  tree.leaves = {2, 3, 1, -1};
  return tree;
}

TEST(RadixTree, PathsAreFlattenedFromTheRoot) {
  const BlockSparse matrix = from_radix_tree(shared_prompt(), 4);
  EXPECT_THAT(matrix.indptr, ElementsAre(0, 3, 7, 9, 9));
  EXPECT_THAT(matrix.indices, ElementsAre(9, 4, 1, 9, 4, 2, 3, 9, 4));
  EXPECT_THAT(matrix.kv_lens, ElementsAre(11, 16, 8, 0));
}

// A cache that splits an edge gives the new parent a later number than its child.
TEST(RadixTree, NodesMayComeInAnyOrder) {
  RadixTree tree;
  tree.nodes = {{1, {5}, 2}, {-1, {6}, 4}};
  tree.leaves = {0};
  EXPECT_THAT(from_radix_tree(tree, 4).indices, ElementsAre(6, 5));
}

TEST(RadixTree, MalformedTreesAreNamed) {
  const auto broken = [](const std::function<void(RadixTree&)>& breaking) {
    RadixTree tree = shared_prompt();
    breaking(tree);
    from_radix_tree(tree, 4);
  };
  const auto expect = [&](std::initializer_list<std::string> texts,
                          const std::function<void(RadixTree&)>& breaking) {
    expect_error(ErrorKind::invalid_argument, texts, [&] { broken(breaking); });
  };
  expect({"nodes[1].tokens is 7", "expected 8"}, [](RadixTree& t) { t.nodes[1].tokens = 7; });
  expect({"nodes[2].tokens is 0", "1 .. 4"}, [](RadixTree& t) { t.nodes[2].tokens = 0; });
  expect({"nodes[2].tokens is 5", "1 .. 4"}, [](RadixTree& t) { t.nodes[2].tokens = 5; });
  expect({"nodes[3].parent is 4"}, [](RadixTree& t) { t.nodes[3].parent = 4; });
  expect({"nodes[3].parent is 3"}, [](RadixTree& t) { t.nodes[3].parent = 3; });
  expect({"cycle"}, [](RadixTree& t) { t.nodes[0].parent = 1; });
  expect({"leaves[1] is 4"}, [](RadixTree& t) { t.leaves[1] = 4; });
  expect({"nodes[3].pages holds -1"}, [](RadixTree& t) { t.nodes[3].pages[0] = -1; });
}

// A prefix of 3, then a root (0) with two children (1, 2), and a child (3) of 1.
TEST(SpeculationTree, ANodeSeesThePrefixItsAncestorsAndItself) {
  const std::vector<SpeculationTree> trees{{{-1, 0, 0, 1}}};
  const BlockSparse matrix =
      from_speculation_trees(Indices{0, 2}, Indices{3, 1}, Indices{7}, trees, 4);
  EXPECT_THAT(expand(matrix, Indices{0, 4}, Indices{7}, 0), ElementsAre(1, 1, 1, 1, 0, 0, 0,  //
                                                                        1, 1, 1, 1, 1, 0, 0,  //
                                                                        1, 1, 1, 1, 0, 1, 0,  //
                                                                        1, 1, 1, 1, 1, 0, 1));
}

TEST(SpeculationTree, EachRequestStartsAtAByteBoundary) {
  const std::vector<SpeculationTree> trees{{{-1}}, {}, {{-1, -1}}};
  const BlockSparse matrix =
      from_speculation_trees(Indices{0, 1, 2, 3}, Indices{3, 1, 0}, Indices{3, 2, 2}, trees, 4);
  EXPECT_THAT(matrix.mask->indptr, ElementsAre(0, 1, 1, 2));
  EXPECT_THAT(matrix.mask->bits, ElementsAre(0b111, 0b1001));
}

TEST(SpeculationTree, MalformedTreesAreNamed) {
  const auto build = [](std::vector<SpeculationTree> trees) {
    return [trees] { from_speculation_trees(Indices{0, 1}, Indices{3}, Indices{2}, trees, 4); };
  };
  expect_error(ErrorKind::invalid_argument, {"trees[0].parents[1] is 1", "-1 .. 0"},
               build({{{-1, 1}}}));
  expect_error(ErrorKind::invalid_argument, {"trees[0].parents[0] is -2"}, build({{{-2}}}));
  expect_error(ErrorKind::invalid_argument, {"trees[0] has 3 nodes", "kv_lens[0] = 2"},
               build({{{-1, 0, 1}}}));
  expect_error(ErrorKind::invalid_argument, {"trees has 2 entries", "expected 1"},
               build({{{-1}}, {{-1}}}));
}

}  // namespace
}  // namespace trencadis
