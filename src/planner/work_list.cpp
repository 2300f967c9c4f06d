#include "planner/work_list.h"

#include <algorithm>
#include <bit>
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

/// One block row, and what maps its query tokens to the keys that they see.
struct BlockRow {
  std::int32_t request;
  std::int32_t row;
  std::int64_t offset;      // l_kv - l_q: token t stands at position t + offset
  std::int64_t kv_len;      // logical, of the request
  std::int64_t row_tokens;  // storage tokens of the block row
};

/// The variant's bounds applied to one block row, without special cases.
struct Window {
  Window(MaskBounds bounds, const BlockRow& row, std::int64_t num_keys)
      : begin_shift(row.offset - (bounds.left < 0 ? kFar : bounds.left)),
        end_shift(row.offset + (bounds.right < 0 ? kFar : bounds.right) + 1),
        keys(num_keys) {}

  /// Keys that some token of [first, last] can see; empty where end <= begin.
  Range operator()(std::int64_t first, std::int64_t last) const {
    return {std::max<std::int64_t>(0, first + begin_shift), std::min(keys, last + end_shift)};
  }

  static constexpr std::int64_t kFar = std::int64_t{1} << 32;  // beyond any token
  std::int64_t begin_shift;
  std::int64_t end_shift;
  std::int64_t keys;
};

/// Storage token t holds key t, and lengths alone bound the mask: a handful of instructions a row
/// block. Every page table is of this kind.
struct PlainRanges {
  Window of(const BlockRow& row) const { return Window(bounds, row, row.row_tokens); }

  MaskBounds bounds;
};

/// Views with positions, and masks with declared bounds.
class MappedRanges {
 public:
  MappedRanges(const Problem& problem, const PlanInput& input, MaskBounds bounds)
      : kv_(problem.kv()), kv_bounds_(input.kv_bounds), bounds_(bounds) {}

  struct OfRow {
    Range operator()(std::int64_t first, std::int64_t last) const {
      return all.storage(row, window(first, last), first, last);
    }
    const MappedRanges& all;
    BlockRow row;
    Window window;
  };
  OfRow of(const BlockRow& row) const { return {*this, row, Window(bounds_, row, row.kv_len)}; }

 private:
  Range storage(const BlockRow& row, Range keys, std::int64_t first, std::int64_t last) const {
    if (kv_bounds_) {
      const KvRange declared = kv_bounds_(row.request, first, last + 1);
      keys = {std::max(keys.begin, declared.begin), std::min(keys.end, declared.end)};
    }
    return {storage_token(row, keys.begin), storage_token(row, keys.end)};
  }

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
  MaskBounds bounds_;
};

/// Where the next row block goes, and the cost of all before it.
struct Cursor {
  std::int32_t next;
  Nanoseconds line;
};

/// What a class costs and how it cuts, side by side.
struct ClassRules {
  ClassRules(const WorkRules& rules, int index)
      : tile_class(index),
        kv_shift(rules.tiles.kv_shift[static_cast<std::size_t>(index)]),
        tile_cost(rules.cost.tile[static_cast<std::size_t>(index)]),
        item_cost(rules.cost.item) {}

  int tile_class;
  std::int32_t kv_shift;
  Nanoseconds tile_cost;
  Nanoseconds item_cost;
};

/// Appends the item of a row block.
inline Cursor put_item(WorkList list, Cursor at, Range seen, ClassRules rules) {
  const bool empty = seen.end <= seen.begin;
  const WorkItem item{.row_block = at.next,
                      .kv_begin = empty ? 0 : static_cast<std::int32_t>(seen.begin),
                      .kv_end = empty ? 0 : static_cast<std::int32_t>(seen.end),
                      .slot = contract::kWriteThrough};
  list.items[at.next] = item;
  at.line += rules.item_cost + tiles_of(item, rules.kv_shift) * rules.tile_cost;
  list.line[++at.next] = at.line;
  return at;
}

inline RowBlock block_of(std::int32_t request, std::int32_t row, std::int32_t first_row,
                         std::int32_t row_count, int tile_class) {
  return {.request = request,
          .block_row = row,
          .first_row = first_row,
          .row_count = static_cast<std::uint16_t>(row_count),
          .tile_class = static_cast<std::uint8_t>(tile_class),
          .view = 0};
}

/// The row blocks of a block row that one tile cannot hold: the loop of a prompt, without a
/// division or a branch but its own. Kept apart because it wants every register.
template <class RangeOf>
[[gnu::noinline]] Cursor append_blocks(WorkList list, Cursor at, const BlockRow& row,
                                       std::int32_t first_row, std::int32_t end_row,
                                       const WorkRules& rules, Divisor group, RangeOf range_of) {
  const ClassRules largest(rules, rules.tiles.count - 1);
  const std::int32_t q_rows = rules.tiles.largest_query_tile();
  const std::int32_t full_end = end_row - q_rows;
  // Two loops, because one would need more registers than there are.
  RowBlock* block = list.blocks + at.next;
  std::int32_t first = first_row;
  for (; first <= full_end; first += q_rows) {
    *block++ = block_of(row.request, row.row, first, q_rows, largest.tile_class);
  }
  if (first < end_row) {
    *block = block_of(row.request, row.row, first, end_row - first, largest.tile_class);
  }
  for (first = first_row; first <= full_end; first += q_rows) {
    const Range seen = range_of(group.divide(first), group.divide(first + q_rows - 1));
    at = put_item(list, at, seen, largest);
  }
  if (first < end_row) {
    const Range seen = range_of(group.divide(first), group.divide(end_row - 1));
    at = put_item(list, at, seen, largest);
  }
  return at;
}

template <class Ranges>
void append_rows(const Problem& problem, const WorkRules& rules, const Ranges& ranges,
                 WorkList list) {
  const Divisor group(static_cast<std::uint32_t>(rules.group));
  const std::int32_t* requests = problem.row_requests();
  const std::int32_t* tokens = problem.row_indptr();
  const std::int32_t* qo_indptr = problem.qo_indptr();
  const std::int32_t largest = rules.tiles.largest_query_tile();
  Cursor at{0, 0};
  list.line[0] = 0;
  for (std::int32_t r = 0; r < problem.num_rows(); ++r) {
    const std::int32_t request = requests == nullptr ? r : requests[r];
    const std::int32_t query_begin = qo_indptr[request];
    const std::int64_t kv_len = problem.kv_lens()[request];
    const std::int64_t offset = kv_len - (qo_indptr[request + 1] - query_begin);
    const std::int32_t first_token = tokens[r] - query_begin;
    const std::int32_t end_token = tokens[r + 1] - query_begin;
    const std::int32_t first_row = first_token * rules.group;
    const std::int32_t rows = (end_token - first_token) * rules.group;
    const BlockRow row{request, r, offset, kv_len, problem.kv().kv_lens[r]};
    if (rows > largest) {
      at = append_blocks(list, at, row, first_row, first_row + rows, rules, group, ranges.of(row));
    } else if (rows > 0) {
      // One tile holds the rows, and their tokens need no division.
      const ClassRules cls(rules, rules.tiles.class_of(rows));
      list.blocks[at.next] = block_of(request, r, first_row, rows, cls.tile_class);
      at = put_item(list, at, ranges.of(row)(first_token, end_token - 1), cls);
    }
  }
}

/// Requests of one query length that one tile holds: a decode step, or drafts to verify. All but
/// the KV ranges is the same for each, and nearly all of what a plan of 1,000 requests costs is
/// here.
template <class Ranges>
void append_equal_rows(const Problem& problem, const WorkRules& rules, const Ranges& ranges,
                       WorkList list) {
  const std::int32_t tokens = problem.common_query_len();
  const std::int32_t rows = tokens * rules.group;
  const ClassRules cls(rules, rules.tiles.class_of(rows));
  const std::int32_t* kv_lens = problem.kv_lens();
  const std::int32_t* row_lens = problem.kv().kv_lens;
  const std::int32_t num_rows = problem.num_rows();
  Cursor at{0, 0};
  list.line[0] = 0;
  for (std::int32_t r = 0; r < num_rows; ++r) {
    const std::int64_t kv_len = kv_lens[r];
    const BlockRow row{r, r, kv_len - tokens, kv_len, row_lens[r]};
    list.blocks[at.next] = block_of(r, r, 0, rows, cls.tile_class);
    at = put_item(list, at, ranges.of(row)(0, tokens - 1), cls);
  }
}

template <class Ranges>
void append(const Problem& problem, const WorkRules& rules, const Ranges& ranges, WorkList list) {
  const std::int32_t tokens = problem.common_query_len();
  if (tokens > 0 && std::int64_t{tokens} * rules.group <= rules.tiles.largest_query_tile()) {
    append_equal_rows(problem, rules, ranges, list);
  } else {
    append_rows(problem, rules, ranges, list);
  }
}

std::int32_t check_count(std::int64_t row_blocks) {
  // Cuts add at most two items a queue to these.
  constexpr std::int64_t kMaxBlocks = std::numeric_limits<std::int32_t>::max() / 2;
  if (row_blocks > kMaxBlocks) {
    base::fail(ErrorKind::out_of_capacity, "the batch has {} row blocks, a plan holds at most {}",
               row_blocks, kMaxBlocks);
  }
  return static_cast<std::int32_t>(row_blocks);
}

}  // namespace

std::int32_t count_row_blocks(const Problem& problem, const WorkRules& rules) {
  // Exact, because a block row that one tile can hold gets a class of at least its rows.
  const auto largest = static_cast<std::uint32_t>(rules.tiles.largest_query_tile());
  const int shift = std::countr_zero(largest);
  const std::int32_t* tokens = problem.row_indptr();
  const std::int32_t common = problem.common_query_len();
  if (common >= 0) {
    const std::int64_t rows = std::int64_t{common} * rules.group;
    return check_count(problem.num_rows() * ((rows + largest - 1) >> shift));
  }
  std::int64_t count = 0;
  for (std::int32_t r = 0; r < problem.num_rows(); ++r) {
    const std::int64_t rows = std::int64_t{tokens[r + 1] - tokens[r]} * rules.group;
    count += (rows + largest - 1) >> shift;
  }
  return check_count(count);
}

void build_work_list(const Problem& problem, const WorkRules& rules, const PlanInput& input,
                     WorkList list) {
  if (problem.kv().positions == nullptr && !input.kv_bounds) {
    append(problem, rules, PlainRanges{rules.bounds}, list);
  } else {
    append(problem, rules, MappedRanges(problem, input, rules.bounds), list);
  }
}

}  // namespace trencadis::planner
