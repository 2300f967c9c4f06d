#include "property/planner/plan_checker.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "contract/plan.h"
#include "contract/units.h"

namespace trencadis::testing {
namespace {

using namespace contract;

struct Piece {
  std::int32_t kv_begin, kv_end;
  std::int32_t slot;
};

class Checker {
 public:
  Checker(const PlanProblem& problem, const Plan& plan)
      : problem_(problem), bytes_(plan.bytes()), view_{header_of(bytes_)} {}

  std::string run() {
    if (!check_sections()) return error_;
    if (!check_row_blocks()) return error_;
    if (!gather_pieces()) return error_;
    for (std::int32_t block = 0; block < header().num_row_blocks; ++block) {
      for (std::int32_t head = 0; head < problem_.heads.kv; ++head) {
        if (!check_cover(block, head)) return error_;
      }
    }
    check_slots();
    return error_;
  }

 private:
  static const PlanHeader* header_of(std::span<const std::byte> bytes) {
    return reinterpret_cast<const PlanHeader*>(bytes.data());
  }
  const PlanHeader& header() const { return *view_.header; }

  template <class... Args>
  bool expect(bool ok, fmt::format_string<Args...> text, Args&&... args) {
    if (!ok && error_.empty()) error_ = fmt::format(text, std::forward<Args>(args)...);
    return ok;
  }

  template <class T>
  bool check_section(const char* name, std::int64_t offset, std::int64_t count,
                     std::int64_t after) {
    const std::int64_t end = offset + count * static_cast<std::int64_t>(sizeof(T));
    return expect(offset % 16 == 0 && count >= 0 && offset >= after &&
                      end <= static_cast<std::int64_t>(bytes_.size()),
                  "section {} is [{}, {}) of {} bytes, after {}", name, offset, end, bytes_.size(),
                  after);
  }

  bool check_sections() {
    const PlanHeader& h = header();
    return expect(h.bytes == static_cast<std::int64_t>(bytes_.size()), "bytes is {}", h.bytes) &&
           check_section<WorkQueue>("queues", h.queues_offset, h.num_queues, sizeof(PlanHeader)) &&
           check_section<RowBlock>("row blocks", h.row_blocks_offset, h.num_row_blocks,
                                   h.queues_offset + 8 * h.num_queues) &&
           check_section<WorkItem>("items", h.items_offset, h.num_items,
                                   h.row_blocks_offset + 16 * h.num_row_blocks) &&
           check_section<WorkSegment>("segments", h.segments_offset, h.num_segments,
                                      h.items_offset + 16 * h.num_items) &&
           check_section<MergeGroup>("merges", h.merges_offset, h.num_merges,
                                     h.segments_offset + 16 * h.num_segments) &&
           expect(h.num_queues == problem_.device.num_ctas, "{} queues", h.num_queues) &&
           expect(h.num_empty_row_blocks >= 0 && h.num_empty_row_blocks <= h.num_row_blocks,
                  "{} of {} row blocks are empty", h.num_empty_row_blocks, h.num_row_blocks);
  }

  std::int32_t num_rows() const {
    return static_cast<std::int32_t>(problem_.matrix.kv_lens.size());
  }
  std::int32_t request_of(std::int32_t row) const {
    const auto& requests = problem_.matrix.row_requests;
    return requests.empty() ? row : requests[row];
  }

  bool check_row_blocks() {
    const std::int64_t group = problem_.heads.group();
    const auto& rows =
        problem_.matrix.row_indptr.empty() ? problem_.qo_indptr : problem_.matrix.row_indptr;
    std::vector<int> seen(problem_.qo_indptr.back() * group, 0);
    for (std::int32_t i = 0; i < header().num_row_blocks; ++i) {
      const RowBlock& block = view_.row_blocks()[i];
      if (!expect(block.block_row >= 0 && block.block_row < num_rows(),
                  "row block {}: block row {}", i, block.block_row) ||
          !expect(block.request == request_of(block.block_row), "row block {}: request {}", i,
                  block.request) ||
          !expect(block.tile_class < header().num_tile_classes && block.row_count >= 1 &&
                      block.row_count <= header().tile_classes[block.tile_class].q_rows,
                  "row block {}: {} rows of class {}", i, block.row_count, block.tile_class)) {
        return false;
      }
      const std::int64_t begin = problem_.qo_indptr[block.request] * group + block.first_row;
      if (!expect(begin >= rows[block.block_row] * group &&
                      begin + block.row_count <= rows[block.block_row + 1] * group,
                  "row block {} leaves its block row", i)) {
        return false;
      }
      for (int r = 0; r < block.row_count; ++r) ++seen[begin + r];
    }
    return expect(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }),
                  "query rows are not covered exactly once");
  }

  bool gather_pieces() {
    std::int32_t next_segment = 0;
    for (std::int32_t q = 0; q < header().num_queues; ++q) {
      const WorkQueue& queue = view_.queues()[q];
      if (!expect(queue.segment_begin == next_segment && queue.segment_end >= next_segment,
                  "queue {} is [{}, {}) after {}", q, queue.segment_begin, queue.segment_end,
                  next_segment)) {
        return false;
      }
      next_segment = queue.segment_end;
    }
    if (!expect(next_segment == header().num_segments, "{} of {} segments are queued", next_segment,
                header().num_segments)) {
      return false;
    }
    for (std::int32_t s = 0; s < header().num_segments; ++s) {
      const WorkSegment& segment = view_.segments()[s];
      if (!expect(segment.kv_head >= 0 && segment.kv_head < problem_.heads.kv &&
                      segment.item_begin >= 0 && segment.item_begin < segment.item_end &&
                      segment.item_end <= header().num_items,
                  "segment {} is items [{}, {}) of head {}", s, segment.item_begin,
                  segment.item_end, segment.kv_head)) {
        return false;
      }
      for (std::int32_t i = segment.item_begin; i < segment.item_end; ++i) {
        const WorkItem& item = view_.items()[i];
        if (!expect(item.row_block >= 0 && item.row_block < view_.num_work_row_blocks(),
                    "item {}: row block {}", i, item.row_block)) {
          return false;
        }
        const bool through = item.slot == kWriteThrough;
        pieces_[{item.row_block, segment.kv_head}].push_back(
            {item.kv_begin, item.kv_end, through ? kWriteThrough : segment.slot_base + item.slot});
      }
    }
    return true;
  }

  /// First and last + 1 storage token that a row of the block can see; {0, 0}: none.
  std::pair<std::int32_t, std::int32_t> visible(const RowBlock& block) const {
    const BlockSparse& m = problem_.matrix;
    const MaskBounds& bounds = problem_.spec.variant.bounds;
    const std::int32_t b = block.request;
    const std::int64_t offset =
        problem_.kv_lens[b] - (problem_.qo_indptr[b + 1] - problem_.qo_indptr[b]);
    std::int32_t first = -1, end = 0;
    const int group = problem_.heads.group();
    const std::int64_t token_end = (block.first_row + block.row_count - 1) / group + 1;
    for (std::int64_t t = block.first_row / group; t < token_end; ++t) {
      const std::int64_t p = t + offset;
      for (std::int32_t s = 0; s < m.kv_lens[block.block_row]; ++s) {
        const std::int64_t column = s / m.block_cols;
        const std::int64_t key =
            (m.positions.empty() ? column : m.positions[m.indptr[block.block_row] + column]) *
                m.block_cols +
            s % m.block_cols;
        if (bounds.left >= 0 && key < p - bounds.left) continue;
        if (bounds.right >= 0 && key > p + bounds.right) continue;
        if (!problem_.prefixes.empty() && key >= problem_.prefixes[b] && key > p) continue;
        if (first < 0 || s < first) first = s;
        end = std::max(end, s + 1);
      }
    }
    return first < 0 ? std::pair{0, 0} : std::pair{first, end};
  }

  /// A row block has items if and only if it sees a key; those that see none come last.
  bool check_cover(std::int32_t block, std::int32_t head) {
    const auto [begin, end] = visible_of(block);
    const bool empty = block >= view_.num_work_row_blocks();
    if (!expect(empty == (begin == end), "row block {} of {} sees [{}, {})", block,
                view_.num_work_row_blocks(), begin, end))
      return false;
    if (empty) return true;  // gather_pieces has seen to it that no item is its own
    auto& pieces = pieces_[{block, head}];
    if (!expect(!pieces.empty(), "row block {} of head {} has no item", block, head)) return false;
    std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
      return a.kv_begin != b.kv_begin ? a.kv_begin < b.kv_begin : a.kv_end < b.kv_end;
    });
    if (pieces.size() == 1) {
      const Piece& only = pieces[0];
      return expect(only.slot == kWriteThrough, "row block {} is whole, in slot {}", block,
                    only.slot) &&
             expect(only.kv_begin == begin && only.kv_end == end,
                    "row block {} covers [{}, {}), sees [{}, {})", block, only.kv_begin,
                    only.kv_end, begin, end);
    }
    std::int32_t at = begin;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (!expect(pieces[i].kv_begin == at && pieces[i].kv_end > at,
                  "row block {}: piece [{}, {}) after {}", block, pieces[i].kv_begin,
                  pieces[i].kv_end, at) ||
          !expect(pieces[i].slot == pieces[0].slot + static_cast<std::int32_t>(i) &&
                      pieces[i].slot >= 0,
                  "row block {}: piece {} in slot {}", block, i, pieces[i].slot)) {
        return false;
      }
      at = pieces[i].kv_end;
    }
    const std::int32_t q_rows = header().tile_classes[view_.row_blocks()[block].tile_class].q_rows;
    return expect(at == end, "row block {} covers up to {}, sees up to {}", block, at, end) &&
           expect(header().slot_rows >= q_rows, "slots of {} rows for tiles of {}",
                  header().slot_rows, q_rows);
  }

  std::pair<std::int32_t, std::int32_t> visible_of(std::int32_t block) {
    const auto known = visible_.find(block);
    if (known != visible_.end()) return known->second;
    return visible_[block] = visible(view_.row_blocks()[block]);
  }

  void check_slots() {
    std::vector<int> merged(header().num_slots, 0);
    std::size_t split = 0;
    for (const auto& [key, pieces] : pieces_) split += pieces.size() > 1;
    expect(split == static_cast<std::size_t>(header().num_merges), "{} merges of {} split blocks",
           header().num_merges, split);
    for (std::int32_t m = 0; m < header().num_merges; ++m) {
      const MergeGroup& group = view_.merges()[m];
      const auto found = pieces_.find({group.row_block, group.kv_head});
      if (!expect(found != pieces_.end(), "merge {} of nothing", m)) return;
      expect(found->second[0].slot == group.slot_begin &&
                 found->second.size() == static_cast<std::size_t>(group.slot_count),
             "merge {} lists {} slots from {}, the block has {} from {}", m, group.slot_count,
             group.slot_begin, found->second.size(), found->second[0].slot);
      for (std::int32_t s = 0; s < group.slot_count; ++s) {
        if (!expect(group.slot_begin + s < header().num_slots, "merge {} leaves the slots", m))
          return;
        ++merged[group.slot_begin + s];
      }
    }
    expect(std::all_of(merged.begin(), merged.end(), [](int n) { return n == 1; }),
           "slots are not merged exactly once");
  }

  const PlanProblem& problem_;
  std::span<const std::byte> bytes_;
  PlanView view_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<Piece>> pieces_;
  std::map<std::int32_t, std::pair<std::int32_t, std::int32_t>> visible_;
  std::string error_;
};

}  // namespace

std::string check_plan(const PlanProblem& problem, const Plan& plan) {
  return Checker(problem, plan).run();
}

}  // namespace trencadis::testing
