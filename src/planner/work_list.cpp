#include "planner/work_list.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"
#include "contract/divisor.h"
#include "contract/units.h"

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

/// A row block or an item as four integers. Neighbours often differ by the same step in each, so
/// that one addition makes the next and one store writes it.
using Lanes = std::int32_t __attribute__((vector_size(16)));

template <class Record>
void put(Record* at, Lanes lanes) {
  static_assert(sizeof(Record) == sizeof(Lanes));
  std::memcpy(at, &lanes, sizeof(lanes));
}

RowBlock block_of(std::int32_t request, std::int32_t row, std::int32_t first_row,
                  std::int32_t row_count, int tile_class) {
  return {.request = request,
          .block_row = row,
          .first_row = first_row,
          .row_count = static_cast<std::uint16_t>(row_count),
          .tile_class = static_cast<std::uint8_t>(tile_class),
          .view = 0};
}

/// `count` row blocks, each `step` further than the one before.
void put_blocks(RowBlock* blocks, std::int32_t count, const RowBlock& first, Lanes step) {
  auto block = std::bit_cast<Lanes>(first);
  for (std::int32_t i = 0; i < count; ++i) {
    put(blocks + i, block);
    block += step;
  }
}

void put_item(WorkList list, std::int32_t index, Range seen) {
  const bool empty = seen.end <= seen.begin;
  list.items[index] = {.row_block = index,
                       .kv_begin = empty ? 0 : static_cast<std::int32_t>(seen.begin),
                       .kv_end = empty ? 0 : static_cast<std::int32_t>(seen.end),
                       .slot = contract::kWriteThrough};
}

/// The items [begin, begin + count) of tiles of `tokens` query tokens each, the first token at
/// `first`. False, and nothing is written, where the ranges are not a simple progression.
bool put_progression(WorkList list, std::int32_t begin, std::int32_t count, std::int64_t first,
                     std::int32_t tokens, const Window& window) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  const std::int64_t way = std::int64_t{tokens} * (count - 1);
  Range from{first + window.begin_shift, first + tokens - 1 + window.end_shift};
  const Range to{from.begin + way, from.end + way};
  if (from.end <= 0 || to.begin >= window.keys) return false;  // some tile may see nothing
  Lanes step{1, tokens, tokens, 0};
  if (to.begin <= 0) from.begin = step[1] = 0;
  if (from.end >= window.keys) {
    from.end = window.keys;
    step[2] = 0;
  } else if (to.end > kMax - tokens) {
    return false;
  }
  const Lanes least{0, 0, 0, contract::kWriteThrough};
  const Lanes most{kMax, kMax, static_cast<std::int32_t>(window.keys), contract::kWriteThrough};
  Lanes item{begin, static_cast<std::int32_t>(from.begin), static_cast<std::int32_t>(from.end),
             contract::kWriteThrough};
  for (std::int32_t i = begin; i < begin + count; ++i) {
    const Lanes raised = item > least ? item : least;
    put(list.items + i, raised < most ? raised : most);
    item += step;
  }
  return true;
}

template <class RangeOf>
bool put_progression(WorkList, std::int32_t, std::int32_t, std::int64_t, std::int32_t,
                     const RangeOf&) {
  return false;
}

/// Continues the line over the items [begin, end), all of one class. True where one sees no key.
bool price(WorkList list, std::int32_t begin, std::int32_t end, const WorkRules& rules,
           int tile_class) {
  const std::int32_t shift = rules.tiles.kv_shift[static_cast<std::size_t>(tile_class)];
  const Nanoseconds tile = rules.cost.tile[static_cast<std::size_t>(tile_class)];
  const Nanoseconds item = rules.cost.item;
  Nanoseconds at = list.line[begin];
  std::int32_t tiles_or = 0;
  for (std::int32_t i = begin; i < end; ++i) {
    const std::int32_t last_tile = tiles_of(list.items[i], shift) - 1;
    at += item + (last_tile + std::int64_t{1}) * tile;
    list.line[i + 1] = at;
    tiles_or |= last_tile;
  }
  return tiles_or < 0;
}

/// What a part of the list holds.
struct Appended {
  std::int32_t end;  // index of the next row block
  bool any_empty;    // of row blocks that see no key
};

/// The row blocks of a block row that one tile cannot hold: those of a prompt.
template <class RangeOf>
Appended append_blocks(WorkList list, std::int32_t begin, const BlockRow& row,
                       std::int32_t first_row, std::int32_t num_rows, const WorkRules& rules,
                       contract::Divisor group, const RangeOf& range_of) {
  const int tile_class = rules.tiles.count - 1;
  const std::int32_t q_rows = rules.tiles.largest_query_tile();
  const std::int32_t full = num_rows / q_rows;
  const std::int32_t rest = num_rows - full * q_rows;
  put_blocks(list.blocks + begin, full,
             block_of(row.request, row.row, first_row, q_rows, tile_class), Lanes{0, 0, q_rows, 0});
  const std::int32_t tokens = q_rows / rules.group;
  if (tokens * rules.group != q_rows ||
      !put_progression(list, begin, full, group.divide(first_row), tokens, range_of)) {
    std::int32_t first = first_row;
    for (std::int32_t i = begin; i < begin + full; ++i, first += q_rows)
      put_item(list, i, range_of(group.divide(first), group.divide(first + q_rows - 1)));
  }
  std::int32_t end = begin + full;
  if (rest > 0) {
    const std::int32_t first = first_row + full * q_rows;
    list.blocks[end] = block_of(row.request, row.row, first, rest, tile_class);
    put_item(list, end, range_of(group.divide(first), group.divide(first + rest - 1)));
    ++end;
  }
  return {end, price(list, begin, end, rules, tile_class)};
}

template <class Ranges>
Appended append_rows(const Problem& problem, const WorkRules& rules, const Ranges& ranges,
                     WorkList list) {
  const contract::Divisor group = contract::Divisor::of(rules.group);
  const std::int32_t* requests = problem.row_requests();
  const std::int32_t* tokens = problem.row_indptr();
  const std::int32_t* qo_indptr = problem.qo_indptr();
  const std::int32_t largest = rules.tiles.largest_query_tile();
  std::int32_t next = 0;
  bool any_empty = false;
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
      const Appended blocks =
          append_blocks(list, next, row, first_row, rows, rules, group, ranges.of(row));
      next = blocks.end;
      any_empty |= blocks.any_empty;
    } else if (rows > 0) {
      // One tile holds the rows, and their tokens need no division.
      const int tile_class = rules.tiles.class_of(rows);
      list.blocks[next] = block_of(request, r, first_row, rows, tile_class);
      put_item(list, next, ranges.of(row)(first_token, end_token - 1));
      any_empty |= price(list, next, next + 1, rules, tile_class);
      ++next;
    }
  }
  return {next, any_empty};
}

/// Requests of one query length that one tile holds: a decode step, or drafts to verify. All but
/// the KV ranges is the same for each.
template <class Ranges>
Appended append_equal_rows(const Problem& problem, const WorkRules& rules, const Ranges& ranges,
                           WorkList list) {
  const std::int32_t tokens = problem.common_query_len();
  const std::int32_t rows = tokens * rules.group;
  const int tile_class = rules.tiles.class_of(rows);
  const std::int32_t* kv_lens = problem.kv_lens();
  const std::int32_t* row_lens = problem.kv().kv_lens;
  const std::int32_t num_rows = problem.num_rows();
  put_blocks(list.blocks, num_rows, block_of(0, 0, 0, rows, tile_class), Lanes{1, 1, 0, 0});
  for (std::int32_t r = 0; r < num_rows; ++r) {
    const std::int64_t kv_len = kv_lens[r];
    const BlockRow row{r, r, kv_len - tokens, kv_len, row_lens[r]};
    put_item(list, r, ranges.of(row)(0, tokens - 1));
  }
  return {num_rows, price(list, 0, num_rows, rules, tile_class)};
}

template <class Ranges>
Appended append(const Problem& problem, const WorkRules& rules, const Ranges& ranges,
                WorkList list) {
  const std::int32_t tokens = problem.common_query_len();
  if (tokens > 0 && std::int64_t{tokens} * rules.group <= rules.tiles.largest_query_tile())
    return append_equal_rows(problem, rules, ranges, list);
  return append_rows(problem, rules, ranges, list);
}

/// Row blocks that see no key move behind the others, which keep their order, and lose their items
/// and their cost. Returns how many are left.
std::int32_t set_aside_empty(WorkList list, std::int32_t count) {
  std::int32_t kept = 0;
  for (std::int32_t i = 0; i < count; ++i) {
    const WorkItem item = list.items[i];
    if (item.kv_end == 0) continue;
    const Nanoseconds cost = list.line[i + 1] - list.line[i];
    std::swap(list.blocks[kept], list.blocks[i]);
    list.items[kept] = {kept, item.kv_begin, item.kv_end, item.slot};
    list.line[kept + 1] = list.line[kept] + cost;
    ++kept;
  }
  return kept;
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

std::int32_t build_work_list(const Problem& problem, const WorkRules& rules, const PlanInput& input,
                             WorkList list) {
  list.line[0] = 0;
  const bool plain = problem.kv().positions == nullptr && !input.kv_bounds;
  const auto [end, any_empty] =
      plain ? append(problem, rules, PlainRanges{rules.bounds}, list)
            : append(problem, rules, MappedRanges(problem, input, rules.bounds), list);
  return any_empty ? set_aside_empty(list, end) : end;
}

}  // namespace trencadis::planner
