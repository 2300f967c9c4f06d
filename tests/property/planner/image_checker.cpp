#include "property/planner/image_checker.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <vector>

#include "contract/plan_image.h"
#include "planner/plan_impl.h"

namespace trencadis::testing {
namespace {

using contract::ImageBlock;
using contract::ImageItem;
using contract::WorkSegment;

class ImageChecker {
 public:
  ImageChecker(const Plan& plan, std::span<const std::byte> bytes)
      : problem_(plan.impl().problem),
        view_(plan.impl().buffer.view()),
        header_(*view_.header),
        image_(*reinterpret_cast<const contract::PlanImage*>(bytes.data())) {
    expect(image_.bytes == static_cast<std::int64_t>(bytes.size()), "bytes");
    expect(image_.num_empty == header_.num_empty_row_blocks, "num_empty");
    expect(image_.slot_rows == header_.slot_rows && image_.unused == 0, "header");
    check_queues();
    check_items();
    check_slots();
    check_ids("pages", image_.pages(), problem_.kv().indices);
    check_ids("positions", image_.positions(), problem_.kv().positions);
  }

  std::string broken;

 private:
  void expect(bool holds, const std::string& law) {
    if (!holds && broken.empty()) broken = law;
  }

  bool is_block(const ImageBlock& got, std::int32_t row_block) const {
    const contract::RowBlock& block = view_.row_blocks()[row_block];
    const std::int32_t* qo = problem_.qo_indptr();
    return got.request == block.request && got.first_row == block.first_row &&
           got.qo_begin == qo[block.request] &&
           got.qo_len == qo[block.request + 1] - qo[block.request] &&
           got.kv_len == problem_.kv_lens()[block.request] &&
           got.first_page == problem_.kv().indptr[block.block_row] &&
           got.row_count == block.row_count && got.tile_class == block.tile_class &&
           got.view == block.view && got.unused == 0;
  }
  bool is_item(const ImageItem& got, std::int32_t index) const {
    const contract::WorkItem& item = view_.items()[index];
    return is_block(got.block, item.row_block) && got.kv_begin == item.kv_begin &&
           got.kv_end == item.kv_end && got.slot == item.slot && got.unused == 0;
  }
  static auto fields(const WorkSegment& s) {
    return std::tuple(s.kv_head, s.item_begin, s.item_end, s.slot_base);
  }

  void check_queues() {
    const contract::ImageQueue* got = image_.queues();
    for (std::int32_t q = 0; q < header_.num_queues; ++q) {
      const contract::WorkQueue& queue = view_.queues()[q];
      if (queue.segment_begin == queue.segment_end) continue;
      const WorkSegment& first = view_.segments()[queue.segment_begin];
      expect(fields(got->first_segment) == fields(first) &&
                 is_item(got->first_item, first.item_begin) &&
                 got->segment_begin == queue.segment_begin + 1 &&
                 got->segment_end == queue.segment_end && got->unused[0] == 0 &&
                 got->unused[1] == 0,
             "queue " + std::to_string(q));
      ++got;
    }
    expect(got - image_.queues() == image_.num_queues, "num_queues");
  }
  void check_items() {
    for (std::int32_t s = 0; s < header_.num_segments; ++s)
      expect(fields(image_.segments()[s]) == fields(view_.segments()[s]),
             "segment " + std::to_string(s));
    for (std::int32_t i = 0; i < header_.num_items; ++i)
      expect(is_item(image_.items()[i], i), "item " + std::to_string(i));
    for (std::int32_t e = 0; e < header_.num_empty_row_blocks; ++e)
      expect(is_block(image_.empty()[e], view_.num_work_row_blocks() + e),
             "empty row block " + std::to_string(e));
  }
  void check_slots() {
    for (std::int32_t m = 0; m < header_.num_merges; ++m) {
      const contract::MergeGroup& group = view_.merges()[m];
      expect(image_.arrivals()[m] == 0, "arrivals " + std::to_string(m));
      for (std::int32_t s = group.slot_begin; s < group.slot_begin + group.slot_count; ++s) {
        const contract::ImageSlot& slot = image_.slots()[s];
        expect(slot.merge == m && slot.slot_begin == group.slot_begin &&
                   slot.slot_count == group.slot_count && slot.unused == 0,
               "slot " + std::to_string(s));
      }
    }
  }
  void check_ids(const char* name, const std::int32_t* got, const std::int32_t* ids) {
    const std::int32_t count = problem_.num_blocks();
    if (ids == nullptr || count == 0) return expect(got == nullptr, name);
    expect(got != nullptr && std::equal(ids, ids + count, got), name);
  }

  const planner::Problem& problem_;
  const contract::PlanView view_;
  const contract::PlanHeader& header_;
  const contract::PlanImage& image_;
};

}  // namespace

std::string check_image(const Plan& plan, std::span<const std::byte> image) {
  return ImageChecker(plan, image).broken;
}

}  // namespace trencadis::testing
