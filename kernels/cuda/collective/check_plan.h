// What kernels take for granted of a plan's image, looked at: places inside of their sections,
// ranges of keys and rows inside of their requests, pages inside of the pool.
//
// Threads walk the sections with the step of the grid, and lanes the pages of an item. Each keeps
// its first fault, a warp writes the first of its lanes, so that the first of all is the same run
// after run.
#pragma once

#include "contract/check_plan.h"
#include "contract/plan_image.h"
#include "contract/units.h"
#include "cuda/ptx/sync.h"
#include "cuda/ptx/thread.h"

namespace trencadis::collective {

class PlanCheck {
 public:
  TRENCADIS_DEVICE explicit PlanCheck(const contract::CheckPlanParams& params) : p_(params) {}

  TRENCADIS_DEVICE void run() {
    if (thread() == 0) check_header();
    for_each(num_segments(), [&](int s) { check_segment(s); });
    for_each(num_items(), [&](int i) { check_item(i); });
    for_each(num_segments(), [&](int s) { check_slots_of(segment(s)); });
    for_each(num_queues(), [&](int q) { check_queue(q); });
    for_each(num_slots(), [&](int s) { check_slot(s); });
    for_each(p_.num_merges, [&](int m) {
      expect(Part::arrival, m, 0, at<int>(p_.expected.arrivals_offset)[m], 0, 0, 0);
    });
    for_each(p_.expected.num_empty, [&](int e) {
      check_block(Part::empty_block, e, at<contract::ImageBlock>(p_.expected.empty_offset)[e]);
    });
    for (int i = thread() / 32; i < num_items(); i += threads() / 32) check_pages(i);
    report();
  }

 private:
  using Part = contract::PlanPart;
  using Image = contract::PlanImage;
  static constexpr int kFar = 0x7fffffff;

  TRENCADIS_DEVICE static int thread() {
    return ptx::cta_index() * ptx::cta_threads() + ptx::thread_index();
  }
  TRENCADIS_DEVICE static int threads() { return ptx::num_ctas() * ptx::cta_threads(); }

  // Where sections are and how long, by the header that was submitted.

  template <class T>
  TRENCADIS_DEVICE const T* at(long long offset) const {
    return reinterpret_cast<const T*>(reinterpret_cast<const char*>(p_.plan) + offset);
  }
  template <class T>
  TRENCADIS_DEVICE static int count(long long begin, long long end) {
    return static_cast<int>((end - begin) / static_cast<long long>(sizeof(T)));
  }
  TRENCADIS_DEVICE int num_queues() const { return p_.expected.num_queues; }
  TRENCADIS_DEVICE int num_segments() const {
    return count<contract::WorkSegment>(p_.expected.segments_offset, p_.expected.items_offset);
  }
  TRENCADIS_DEVICE int num_items() const {
    return count<contract::ImageItem>(p_.expected.items_offset, p_.expected.slots_offset);
  }
  TRENCADIS_DEVICE int num_slots() const {
    return count<contract::ImageSlot>(p_.expected.slots_offset, p_.expected.arrivals_offset);
  }
  TRENCADIS_DEVICE const contract::WorkSegment& segment(int s) const {
    return at<contract::WorkSegment>(p_.expected.segments_offset)[s];
  }
  TRENCADIS_DEVICE const contract::ImageItem& item(int i) const {
    return at<contract::ImageItem>(p_.expected.items_offset)[i];
  }

  /// The calling thread's share of `n` things, up to its first fault.
  template <class Check>
  TRENCADIS_DEVICE void for_each(int n, const Check& check) {
    for (int i = thread(); i < n && !found(); i += threads()) check(i);
  }

  TRENCADIS_DEVICE bool found() const { return fault_.order != contract::PlanFault::kNone; }

  /// True where the value is between lowest and highest, both included. Of the faults of a thread
  /// the first stays. There are fewer than 2^28 items, since an image is smaller than 12 GiB.
  TRENCADIS_DEVICE bool expect(Part part, int index, int field, long long value, long long lowest,
                               long long highest, int column) {
    if (value >= lowest && value <= highest) return true;
    if (found()) return false;
    fault_ = {.order = (static_cast<long long>(part) << 59) |
                       (static_cast<long long>(index) << 31) | column,
              .part = part,
              .index = index,
              .field = field,
              .column = column,
              .value = value,
              .lowest = lowest,
              .highest = highest};
    return false;
  }

  /// The members of one queue, segment, item, ...
  template <class Whole>
  struct Members {
    PlanCheck& check;
    Part part;
    int index;
    const Whole& whole;

    template <class Member>
    TRENCADIS_DEVICE bool in(const Member& member, long long lowest, long long highest) const {
      const auto field =
          reinterpret_cast<const char*>(&member) - reinterpret_cast<const char*>(&whole);
      return check.expect(part, index, static_cast<int>(field), static_cast<long long>(member),
                          lowest, highest, 0);
    }
    template <class Member>
    TRENCADIS_DEVICE void is(const Member& member, const Member& expected) const {
      in(member, expected, expected);
    }
    /// By its words.
    template <class Member>
    TRENCADIS_DEVICE void is_copy(const Member& copy, const Member& original) const {
      const int* const a = reinterpret_cast<const int*>(&copy);
      const int* const b = reinterpret_cast<const int*>(&original);
      for (int w = 0; w < int(sizeof copy / sizeof *a); ++w) is(a[w], b[w]);
    }
  };

  TRENCADIS_DEVICE void check_header() {
    const Image& now = *p_.plan;
    const Image& then = p_.expected;
    const Members<Image> header{*this, Part::header, 0, now};
    header.is(now.num_queues, then.num_queues);
    header.is(now.num_empty, then.num_empty);
    header.is(now.slot_rows, then.slot_rows);
    header.is(now.segments_offset, then.segments_offset);
    header.is(now.items_offset, then.items_offset);
    header.is(now.slots_offset, then.slots_offset);
    header.is(now.arrivals_offset, then.arrivals_offset);
    header.is(now.empty_offset, then.empty_offset);
    header.is(now.pages_offset, then.pages_offset);
    header.is(now.positions_offset, then.positions_offset);
  }

  TRENCADIS_DEVICE void check_segment(int s) {
    const contract::WorkSegment& now = segment(s);
    const Members<contract::WorkSegment> members{*this, Part::segment, s, now};
    members.in(now.kv_head, 0, p_.num_kv_heads - 1);
    members.in(now.item_begin, 0, num_items() - 1);
    members.in(now.item_end, now.item_begin + 1LL, num_items());
    members.in(now.slot_base, 0, num_slots());
  }

  TRENCADIS_DEVICE bool check_block(Part part, int index, const contract::ImageBlock& now) {
    const Members<contract::ImageBlock> rows{*this, part, index, now};
    return rows.in(now.request, 0, p_.num_requests - 1) &&
           rows.in(now.qo_begin, 0, p_.num_qo_tokens) &&
           rows.in(now.qo_len, 1, p_.num_qo_tokens - now.qo_begin) &&
           rows.in(now.kv_len, 0, kFar) && rows.in(now.tile_class, 0, p_.num_tile_classes - 1) &&
           rows.in(now.row_count, 1, p_.tile_classes[now.tile_class].q_rows) &&
           rows.in(now.first_row, 0, static_cast<long long>(now.qo_len) * p_.group - now.row_count);
  }

  TRENCADIS_DEVICE void check_item(int i) {
    const contract::ImageItem& now = item(i);
    const Members<contract::ImageItem> members{*this, Part::item, i, now};
    if (!check_block(Part::item, i, now.block)) return;
    if (!members.in(now.kv_begin, 0, now.block.kv_len - 1LL)) return;
    if (!members.in(now.kv_end, now.kv_begin + 1LL, now.block.kv_len)) return;
    members.in(now.block.first_page, 0, p_.num_ids - columns(now));
  }

  /// Pages of its block row up to the last that the item reads.
  TRENCADIS_DEVICE long long columns(const contract::ImageItem& now) const {
    return (now.kv_end - 1LL) / p_.page_size + 1;
  }

  /// Of the items of a segment, whose slots are relative to it.
  TRENCADIS_DEVICE void check_slots_of(const contract::WorkSegment& now) {
    if (now.item_begin < 0 || now.item_end > num_items()) return;  // the segment's fault
    for (int i = now.item_begin; i < now.item_end && !found(); ++i) {
      const Members<contract::ImageItem> members{*this, Part::item, i, item(i)};
      if (item(i).slot != contract::kWriteThrough)
        members.in(item(i).slot, 0, num_slots() - 1LL - now.slot_base);
    }
  }

  TRENCADIS_DEVICE void check_queue(int q) {
    const contract::ImageQueue& now = at<contract::ImageQueue>(sizeof(Image))[q];
    const Members<contract::ImageQueue> members{*this, Part::queue, q, now};
    if (!members.in(now.segment_begin, 1, num_segments())) return;
    if (!members.in(now.segment_end, now.segment_begin, num_segments())) return;
    const contract::WorkSegment& first = segment(now.segment_begin - 1);
    members.is_copy(now.first_segment, first);
    if (first.item_begin < 0 || first.item_begin >= num_items()) return;  // the segment's fault
    members.is_copy(now.first_item, item(first.item_begin));
  }

  TRENCADIS_DEVICE void check_slot(int s) {
    const contract::ImageSlot& now = at<contract::ImageSlot>(p_.expected.slots_offset)[s];
    const Members<contract::ImageSlot> members{*this, Part::slot, s, now};
    if (!members.in(now.merge, 0, p_.num_merges - 1)) return;
    if (!members.in(now.slot_begin, 0, s)) return;
    members.in(now.slot_count, s - now.slot_begin + 1LL, num_slots() - now.slot_begin);
  }

  /// Of an item that has no fault of its own.
  TRENCADIS_DEVICE void check_pages(int i) {
    const contract::ImageItem& now = item(i);
    const long long first = now.block.first_page;
    if (now.kv_begin < 0 || now.kv_end <= now.kv_begin || now.kv_end > now.block.kv_len) return;
    if (first < 0 || first + columns(now) > p_.num_ids) return;
    const bool listed = p_.expected.pages_offset != 0;
    const bool placed = p_.expected.positions_offset != 0;
    for (long long c = now.kv_begin / p_.page_size + ptx::lane_index();
         c < columns(now) && !found(); c += 32) {
      const auto column = static_cast<int>(c);
      const long long left = now.kv_end - c * p_.page_size;
      const long long used = left < p_.page_size ? left : p_.page_size;  // tokens of the page
      const long long page = listed ? at<int>(p_.expected.pages_offset)[first + c] : first + c;
      const auto entry = static_cast<int>(first + c);
      expect(Part::page, i, entry, page, 0, last_block(p_.pool_tokens, used), column);
      if (placed)
        expect(Part::position, i, entry, at<int>(p_.expected.positions_offset)[first + c], 0,
               last_block(now.block.kv_len, used), column);
    }
  }

  /// The last block of P tokens whose first `used` are among `tokens`; -1: none.
  TRENCADIS_DEVICE long long last_block(long long tokens, long long used) const {
    return tokens < used ? -1 : (tokens - used) / p_.page_size;
  }

  /// By the whole warp.
  TRENCADIS_DEVICE void report() {
    long long least = fault_.order;
    for (int mask = 16; mask > 0; mask /= 2) {
      const auto low = ptx::shuffle_xor(static_cast<unsigned>(least), mask);
      const auto high = ptx::shuffle_xor(static_cast<unsigned>(least >> 32), mask);
      const auto other = static_cast<long long>(static_cast<unsigned long long>(high) << 32 | low);
      least = other < least ? other : least;
    }
    contract::PlanFault& to = p_.faults[thread() / 32];
    if (least == contract::PlanFault::kNone) {
      if (ptx::lane_index() == 0) to = fault_;
    } else if (fault_.order == least) {
      to = fault_;
    }
  }

  const contract::CheckPlanParams& p_;
  contract::PlanFault fault_{contract::PlanFault::kNone, Part::header, 0, 0, 0, 0, 0, 0};
};

/// Any grid of whole warps. Reads the image, writes a fault a warp.
TRENCADIS_DEVICE void check_plan(const contract::CheckPlanParams& params) {
  ptx::wait_for_dependencies();
  PlanCheck(params).run();
}

}  // namespace trencadis::collective
