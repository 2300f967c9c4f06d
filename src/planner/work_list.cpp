#include "planner/work_list.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "contract/units.h"
#include "planner/divisor.h"

namespace trencadis::planner {
namespace {

using contract::RowBlock;
using contract::WorkItem;

struct Range {
  std::int64_t begin;
  std::int64_t end;
};

/// The query rows of one block row, and what maps a row to the keys that it sees.
struct BlockRow {
  std::int32_t request;
  std::int32_t row;
  std::int32_t first_row;  // fused, in the request
  std::int32_t end_row;
  std::int64_t offset;      // l_kv - l_q: token t stands at position t + offset
  std::int64_t kv_len;      // logical, of the request
  std::int64_t row_tokens;  // storage tokens of the block row
};

/// The variant's bounds in a form without special cases.
class Window {
 public:
  explicit Window(MaskBounds bounds)
      : left_(bounds.left < 0 ? kFar : bounds.left),
        right_(bounds.right < 0 ? kFar : bounds.right) {}

  /// Keys that some token of [first, last] can see, of a request with `keys` keys.
  Range of(const BlockRow& row, std::int64_t first, std::int64_t last, std::int64_t keys) const {
    const std::int64_t begin = std::max<std::int64_t>(0, first + row.offset - left_);
    const std::int64_t end = std::min(keys, last + row.offset + right_ + 1);
    return {begin, end};
  }

 private:
  static constexpr std::int64_t kFar = std::int64_t{1} << 32;  // beyond any token
  std::int64_t left_;
  std::int64_t right_;
};

/// Storage token t holds key t, and lengths alone bound the mask: a handful of instructions a row
/// block. Every page table is of this kind.
class PlainRanges {
 public:
  explicit PlainRanges(MaskBounds bounds) : window_(bounds) {}

  Range operator()(const BlockRow& row, std::int64_t first, std::int64_t last) const {
    return window_.of(row, first, last, row.row_tokens);
  }

 private:
  Window window_;
};

/// Views with positions, and masks with declared bounds.
class MappedRanges {
 public:
  MappedRanges(const Problem& problem, const PlanInput& input, MaskBounds bounds)
      : kv_(problem.kv()), kv_bounds_(input.kv_bounds), window_(bounds) {}

  Range operator()(const BlockRow& row, std::int64_t first, std::int64_t last) const {
    Range keys = window_.of(row, first, last, row.kv_len);
    if (kv_bounds_) {
      const KvRange declared = kv_bounds_(row.request, first, last + 1);
      keys = {std::max(keys.begin, declared.begin), std::min(keys.end, declared.end)};
    }
    return {storage_token(row, keys.begin), storage_token(row, keys.end)};
  }

 private:
  /// The first storage token of the row whose key is `key` or later.
  std::int64_t storage_token(const BlockRow& row, std::int64_t key) const {
    if (key <= 0) return 0;
    if (kv_.positions == nullptr) return std::min(key, row.row_tokens);
    const std::int64_t blocks = contract::ceil_div(row.row_tokens, kv_.block_cols);
    const std::int32_t* begin = kv_.positions + kv_.indptr[row.row];
    const std::int64_t column = key / kv_.block_cols;
    const std::int64_t block = std::lower_bound(begin, begin + blocks, column) - begin;
    const bool inside = block < blocks && begin[block] == column;
    return std::min(row.row_tokens, block * kv_.block_cols + (inside ? key % kv_.block_cols : 0));
  }

  const contract::BsrParams& kv_;
  const std::function<KvRange(std::int64_t, std::int64_t, std::int64_t)>& kv_bounds_;
  Window window_;
};

/// Appends the row blocks of one block row and returns the index of the next. The loop of a prompt:
/// no division, no branch but its own.
template <class Ranges>
std::int32_t append_row(const BlockRow& row, int tile_class, const WorkRules& rules, Divisor group,
                        const Ranges& ranges, WorkList list, std::int32_t next) {
  const auto cls = static_cast<std::size_t>(tile_class);
  const std::int32_t q_rows = rules.tiles.classes[cls].q_rows;
  const std::int32_t kv_shift = rules.tiles.kv_shift[cls];
  const Nanoseconds tile_cost = rules.cost.tile[cls];
  Nanoseconds line = list.line[next];
  for (std::int32_t first = row.first_row; first < row.end_row; first += q_rows, ++next) {
    const std::int32_t count = std::min(q_rows, row.end_row - first);
    const Range seen = ranges(row, group.divide(first), group.divide(first + count - 1));
    const bool empty = seen.end <= seen.begin;
    WorkItem& item = list.items[next];
    item.row_block = next;
    item.kv_begin = empty ? 0 : static_cast<std::int32_t>(seen.begin);
    item.kv_end = empty ? 0 : static_cast<std::int32_t>(seen.end);
    item.slot = contract::kWriteThrough;
    list.blocks[next] = RowBlock{.request = row.request,
                                 .block_row = row.row,
                                 .first_row = first,
                                 .row_count = static_cast<std::uint16_t>(count),
                                 .tile_class = static_cast<std::uint8_t>(tile_class),
                                 .view = 0};
    line += rules.cost.item + tiles_of(item, kv_shift) * tile_cost;
    list.line[next + 1] = line;
  }
  return next;
}

template <class Ranges>
void append_rows(const Problem& problem, const WorkRules& rules, const Ranges& ranges,
                 WorkList list) {
  const Divisor group(static_cast<std::uint32_t>(rules.group));
  const std::int32_t* requests = problem.row_requests();
  const std::int32_t* tokens = problem.row_indptr();
  const std::int32_t* qo_indptr = problem.qo_indptr();
  std::int32_t next = 0;
  list.line[0] = 0;
  for (std::int32_t r = 0; r < problem.num_rows(); ++r) {
    const std::int32_t request = requests == nullptr ? r : requests[r];
    const std::int32_t query_begin = qo_indptr[request];
    const std::int64_t kv_len = problem.kv_lens()[request];
    const BlockRow row{
        .request = request,
        .row = r,
        .first_row = (tokens[r] - query_begin) * rules.group,
        .end_row = (tokens[r + 1] - query_begin) * rules.group,
        .offset = kv_len - (qo_indptr[request + 1] - query_begin),
        .kv_len = kv_len,
        .row_tokens = problem.kv().kv_lens[r],
    };
    next = append_row(row, rules.tiles.class_of(row.end_row - row.first_row), rules, group, ranges,
                      list, next);
  }
}

}  // namespace

std::int32_t count_row_blocks(const Problem& problem, const WorkRules& rules) {
  // Exact, because a block row that one tile can hold gets a class of at least its rows.
  const std::int64_t largest = rules.tiles.largest_query_tile();
  const std::int32_t* tokens = problem.row_indptr();
  std::int64_t count = 0;
  if (rules.group * std::int64_t{problem.nnz_q()} <= largest) {
    for (std::int32_t r = 0; r < problem.num_rows(); ++r) count += tokens[r + 1] != tokens[r];
  } else {
    for (std::int32_t r = 0; r < problem.num_rows(); ++r) {
      count += contract::ceil_div((tokens[r + 1] - std::int64_t{tokens[r]}) * rules.group, largest);
    }
  }
  // Cuts add at most two items a queue to these.
  constexpr std::int64_t kMaxBlocks = std::numeric_limits<std::int32_t>::max() / 2;
  if (count > kMaxBlocks) {
    base::fail(ErrorKind::out_of_capacity, "the batch has {} row blocks, a plan holds at most {}",
               count, kMaxBlocks);
  }
  return static_cast<std::int32_t>(count);
}

void build_work_list(const Problem& problem, const WorkRules& rules, const PlanInput& input,
                     WorkList list) {
  if (problem.kv().positions == nullptr && !input.kv_bounds) {
    append_rows(problem, rules, PlainRanges(rules.bounds), list);
  } else {
    append_rows(problem, rules, MappedRanges(problem, input, rules.bounds), list);
  }
}

}  // namespace trencadis::planner
