// Radix trees (many requests, shared storage) and speculation trees (one request, branching rows).
#include <trencadis/block_sparse.h>

#include <algorithm>

#include "base/check.h"
#include "contract/units.h"
#include "sparsity/bits.h"
#include "sparsity/checks.h"

namespace trencadis {
namespace {

using base::check;
using sparsity::check_block;
using sparsity::check_count;
using sparsity::narrow;

void check_radix_nodes(const RadixTree& tree, std::int64_t page_size) {
  const auto count = static_cast<std::int64_t>(tree.nodes.size());
  std::vector<bool> has_child(tree.nodes.size(), false);
  for (std::size_t n = 0; n < tree.nodes.size(); ++n) {
    const std::int32_t parent = tree.nodes[n].parent;
    check(parent >= -1 && parent < count && parent != static_cast<std::int64_t>(n),
          "nodes[{}].parent is {}, expected another node, 0 .. {}, or -1", n, parent, count - 1);
    if (parent >= 0) has_child[static_cast<std::size_t>(parent)] = true;
  }
  for (std::size_t n = 0; n < tree.nodes.size(); ++n) {
    const RadixTree::Node& node = tree.nodes[n];
    const auto pages = static_cast<std::int64_t>(node.pages.size());
    const std::int64_t full = pages * page_size;
    if (has_child[n]) {
      check(node.tokens == full,
            "nodes[{}].tokens is {}, expected {}: a node with children fills its {} pages", n,
            node.tokens, full, pages);
    } else {
      const std::int64_t least = pages == 0 ? 0 : full - page_size + 1;
      check(node.tokens >= least && node.tokens <= full,
            "nodes[{}].tokens is {}, expected {} .. {} in {} pages", n, node.tokens, least, full,
            pages);
    }
    for (const std::int32_t page : node.pages) {
      check(page >= 0, "nodes[{}].pages holds {}, expected no negative page id", n, page);
    }
  }
}

/// Nodes from the root down to `leaf`. A path longer than the tree has a cycle.
void find_path(const RadixTree& tree, std::int32_t leaf, std::vector<std::int32_t>& path) {
  path.clear();
  for (std::int32_t n = leaf; n >= 0; n = tree.nodes[static_cast<std::size_t>(n)].parent) {
    check(path.size() < tree.nodes.size(), "the parents of nodes[{}] form a cycle", leaf);
    path.push_back(n);
  }
  std::reverse(path.begin(), path.end());
}

void check_speculation_tree(const SpeculationTree& tree, std::size_t request, std::int64_t kv_len) {
  check(static_cast<std::int64_t>(tree.parents.size()) <= kv_len,
        "trees[{}] has {} nodes, expected at most kv_lens[{}] = {}", request, tree.parents.size(),
        request, kv_len);
  for (std::size_t i = 0; i < tree.parents.size(); ++i) {
    const std::int32_t parent = tree.parents[i];
    check(parent >= -1 && parent < static_cast<std::int64_t>(i),
          "trees[{}].parents[{}] is {}, expected -1 .. {}: parents come before their children",
          request, i, parent, static_cast<std::int64_t>(i) - 1);
  }
}

/// Rows of the mask of one request: the prefix, the ancestors, the node itself.
void write_tree_mask(const SpeculationTree& tree, std::int64_t kv_len, std::uint8_t* bits) {
  const auto nodes = static_cast<std::int64_t>(tree.parents.size());
  const std::int64_t prefix = kv_len - nodes;
  for (std::int64_t i = 0; i < nodes; ++i) {
    sparsity::set_bits(bits, i * kv_len, i * kv_len + prefix);
    for (std::int64_t a = i; a >= 0; a = tree.parents[static_cast<std::size_t>(a)]) {
      sparsity::set_bit(bits, i * kv_len + prefix + a);
    }
  }
}

}  // namespace

BlockSparse from_radix_tree(const RadixTree& tree, std::int64_t page_size) {
  check_block("page_size", page_size);
  check_radix_nodes(tree, page_size);
  const auto count = static_cast<std::int64_t>(tree.nodes.size());
  BlockSparse matrix;
  matrix.block_cols = page_size;
  matrix.indptr.push_back(0);
  std::vector<std::int32_t> path;
  for (std::size_t b = 0; b < tree.leaves.size(); ++b) {
    const std::int32_t leaf = tree.leaves[b];
    check(leaf >= -1 && leaf < count, "leaves[{}] is {}, expected a node, 0 .. {}, or -1", b, leaf,
          count - 1);
    find_path(tree, leaf, path);
    std::int64_t tokens = 0;
    for (const std::int32_t n : path) {
      const RadixTree::Node& node = tree.nodes[static_cast<std::size_t>(n)];
      matrix.indices.insert(matrix.indices.end(), node.pages.begin(), node.pages.end());
      tokens += node.tokens;
    }
    matrix.indptr.push_back(
        narrow("block count up to leaves", b, static_cast<std::int64_t>(matrix.indices.size())));
    matrix.kv_lens.push_back(narrow("tokens up to leaves", b, tokens));
  }
  return matrix;
}

BlockSparse from_speculation_trees(IndexSpan indptr, IndexSpan indices, IndexSpan kv_lens,
                                   std::span<const SpeculationTree> trees, std::int64_t page_size) {
  BlockSparse matrix = from_page_table(indptr, indices, kv_lens, page_size);
  check_count("trees", trees.size(), kv_lens.size(), "kv_lens");
  PackedMask mask;
  mask.indptr.push_back(0);
  for (std::size_t b = 0; b < trees.size(); ++b) {
    check_speculation_tree(trees[b], b, kv_lens[b]);
    const auto nodes = static_cast<std::int64_t>(trees[b].parents.size());
    mask.indptr.push_back(mask.indptr.back() + sparsity::bytes_of_bits(nodes * kv_lens[b]));
  }
  mask.bits.resize(static_cast<std::size_t>(mask.indptr.back()), 0);
  for (std::size_t b = 0; b < trees.size(); ++b) {
    write_tree_mask(trees[b], kv_lens[b], mask.bits.data() + mask.indptr[b]);
  }
  matrix.mask = std::move(mask);
  return matrix;
}

}  // namespace trencadis
