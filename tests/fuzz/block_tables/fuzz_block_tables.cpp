// Arbitrary bytes as block tables in every form: a typed error, or a matrix whose laws hold.
#include <trencadis/block_sparse.h>
#include <trencadis/error.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

using namespace trencadis;

using Indices = std::vector<std::int64_t>;

void require(bool ok, const char* law) {
  if (ok) return;
  std::fprintf(stderr, "broken: %s\n", law);
  std::abort();
}

/// Takes values off the front; zeros once the input is used up.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  std::uint8_t byte() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }

  /// Mostly small, so that tables are often right; sometimes any of 64 bits.
  std::int64_t value() {
    const std::uint8_t first = byte();
    if (first < 0xf0) return first % 32;
    if (first < 0xf8) return static_cast<std::int8_t>(byte());
    std::uint64_t bits = 0;
    for (int i = 0; i < 8; ++i) bits = bits << 8 | byte();
    std::int64_t result;
    std::memcpy(&result, &bits, sizeof(result));
    return result;
  }

  /// A node of a tree, or -1.
  std::int32_t node() {
    const std::int64_t number = value();
    return static_cast<std::int32_t>(number > 0 ? number - 1 : number == 0 ? -1 : number);
  }

  Indices values() {
    Indices result(byte() % 24);
    for (std::int64_t& x : result) x = value();
    return result;
  }

  /// Ascending more often than not.
  Indices indptr() {
    Indices result = values();
    if (byte() % 4 == 0) return result;
    std::int64_t sum = 0;
    for (std::int64_t& x : result) {
      const std::int64_t step = (x % 4 + 4) % 4;
      x = sum;
      sum += step;
    }
    return result;
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
};

std::vector<std::int32_t> narrow(const Indices& values) {
  std::vector<std::int32_t> result;
  for (const std::int64_t value : values) result.push_back(static_cast<std::int32_t>(value));
  return result;
}

void check_laws(const BlockSparse& matrix) {
  const std::size_t rows = matrix.kv_lens.size();
  require(matrix.block_cols >= 1, "block_cols is positive");
  require(matrix.indptr.size() == rows + 1 && matrix.indptr[0] == 0, "indptr has rows + 1 entries");
  require(matrix.row_requests.empty() || matrix.row_requests.size() == rows, "a request a row");
  require(matrix.row_indptr.empty() || matrix.row_indptr.size() == rows + 1, "tokens of each row");
  require(matrix.indices.empty() ||
              matrix.indices.size() == static_cast<std::size_t>(matrix.indptr.back()),
          "indptr counts the indices");
  require(matrix.positions.empty() || matrix.positions.size() == matrix.indices.size(),
          "a position a block");
  for (const std::int32_t block : matrix.indices) require(block >= 0, "block ids are not negative");
  for (std::size_t r = 0; r < rows; ++r) {
    const std::int64_t blocks = std::int64_t{matrix.indptr[r + 1]} - matrix.indptr[r];
    const std::int64_t tokens = matrix.kv_lens[r];
    require(blocks >= 0, "indptr does not decrease");
    require(tokens >= 0 && tokens <= blocks * matrix.block_cols, "tokens lie in blocks");
    require(tokens > (blocks - 1) * matrix.block_cols, "no block is kept without tokens");
    for (std::int64_t j = matrix.indptr[r] + 1;
         !matrix.positions.empty() && j < matrix.indptr[r + 1]; ++j) {
      const auto i = static_cast<std::size_t>(j);
      require(matrix.positions[i] > matrix.positions[i - 1], "positions ascend in a row");
    }
  }
}

/// A matrix that a builder returned expands to a mask of its problem without an error.
void check_expansion(const BlockSparse& matrix, const Indices& qo_indptr, const Indices& kv_lens,
                     bool hides_nothing) {
  for (std::size_t b = 0; b < kv_lens.size(); ++b) {
    const std::int64_t rows = qo_indptr[b + 1] - qo_indptr[b];
    if (rows * kv_lens[b] > 1'000'000) continue;
    const auto mask = expand(matrix, qo_indptr, kv_lens, static_cast<std::int64_t>(b));
    require(mask.size() == static_cast<std::size_t>(rows * kv_lens[b]), "expand is [l_q, l_kv]");
    if (!hides_nothing) continue;
    for (const std::uint8_t keep : mask) require(keep == 1, "a table hides nothing");
  }
}

void check_table(const BlockSparse& matrix) {
  check_laws(matrix);
  Indices qo_indptr{0}, kv_lens;
  for (const std::int32_t len : matrix.kv_lens) {
    qo_indptr.push_back(qo_indptr.back() + 2);
    kv_lens.push_back(len);
  }
  check_expansion(matrix, qo_indptr, kv_lens, true);
}

void build_page_tables(Input& input, int form) {
  const bool wide = input.byte() % 2 == 0;
  const Indices indptr = input.indptr(), indices = input.values(), lens = input.values();
  const std::int64_t page_size = input.value();
  const auto narrow_indptr = narrow(indptr), narrow_indices = narrow(indices);
  const IndexSpan p = wide ? IndexSpan(indptr) : IndexSpan(narrow_indptr);
  const IndexSpan i = wide ? IndexSpan(indices) : IndexSpan(narrow_indices);
  if (form == 0) check_table(from_page_table(p, i, lens, page_size));
  if (form == 1) check_table(from_last_page_lens(p, i, lens, page_size));
  if (form == 2) check_table(from_padded_table(i, input.value(), lens, page_size));
  if (form == 3) check_table(from_ragged(p));
}

void build_radix_tree(Input& input) {
  RadixTree tree;
  const std::int64_t page_size = input.value();
  tree.nodes.resize(input.byte() % 12);
  for (std::size_t n = 0; n < tree.nodes.size(); ++n) {
    tree.nodes[n].parent = input.node();
    for (int page = input.byte() % 4; page > 0; --page) {
      tree.nodes[n].pages.push_back(static_cast<std::int32_t>(input.value()));
    }
    const auto pages = static_cast<std::int64_t>(tree.nodes[n].pages.size());
    const bool right = input.byte() % 4 != 0 && page_size > 0 && page_size < 1'000'000;
    tree.nodes[n].tokens = right ? pages * page_size : input.value();
  }
  for (int leaf = input.byte() % 8; leaf > 0; --leaf) tree.leaves.push_back(input.node());
  const BlockSparse matrix = from_radix_tree(tree, page_size);
  check_table(matrix);
}

void build_speculation_trees(Input& input) {
  const Indices indptr = input.indptr(), indices = input.values(), lens = input.values();
  // The mask has nodes x l_kv bits; a page of any size would ask for all of the memory.
  const std::int64_t page_size = std::int64_t{input.byte()};
  std::vector<SpeculationTree> trees(input.byte() % 12);
  Indices qo_indptr{0};
  for (SpeculationTree& tree : trees) {
    for (int node = input.byte() % 8; node > 0; --node) {
      tree.parents.push_back(input.node());
    }
    qo_indptr.push_back(qo_indptr.back() + static_cast<std::int64_t>(tree.parents.size()));
  }
  const BlockSparse matrix = from_speculation_trees(indptr, indices, lens, trees, page_size);
  check_laws(matrix);
  check_expansion(matrix, qo_indptr, lens, false);
}

void build_mask(Input& input, bool of_blocks) {
  std::int64_t rows = input.value(), cols = input.value();
  // No element is due for [2^31, 0], but a row of the matrix each would be.
  if (rows > 4096) rows = 4096;
  const std::int64_t block_rows = input.value(), block_cols = input.value();
  // The right number of elements where that is not too many, else any.
  const bool small = rows >= 0 && cols >= 0 && cols < 4096 && rows * cols < 4096;
  std::vector<std::uint8_t> mask(
      small && input.byte() % 8 != 0 ? static_cast<std::size_t>(rows * cols) : input.byte());
  for (std::uint8_t& keep : mask) keep = input.byte() % 2;
  if (of_blocks && small && rows > 0 && cols > 0 && block_rows > 0 && block_cols > 0) {
    mask.resize(
        static_cast<std::size_t>(((rows - 1) / block_rows + 1) * ((cols - 1) / block_cols + 1)));
  }
  const BlockSparse matrix = of_blocks ? from_block_mask(mask, rows, cols, block_rows, block_cols)
                                       : from_mask(mask, rows, cols, block_rows, block_cols);
  check_laws(matrix);
  check_expansion(matrix, {0, rows}, {cols}, false);
  if (of_blocks || rows * cols > 1'000'000) return;
  const auto expanded = expand(matrix, Indices{0, rows}, Indices{cols}, 0);
  require(expanded == mask, "the expanded mask is the source's");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const int form = input.byte() % 8;
  try {
    if (form < 4) build_page_tables(input, form);
    if (form == 4) build_radix_tree(input);
    if (form == 5) build_speculation_trees(input);
    if (form >= 6) build_mask(input, form == 7);
  } catch (const trencadis::Error& error) {
    require(error.kind() == trencadis::ErrorKind::invalid_argument, "errors are of the caller's");
    require(std::strlen(error.what()) > 0, "errors have a text");
  }
  return 0;
}
