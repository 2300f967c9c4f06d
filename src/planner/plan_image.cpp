#include "planner/plan_image.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "contract/plan_image.h"
#include "contract/units.h"

namespace trencadis::planner {
namespace {

using contract::ImageBlock;
using contract::ImageItem;
using contract::ImageQueue;
using contract::ImageSlot;
using contract::PlanImage;
using contract::PlanView;
using contract::WorkQueue;
using contract::WorkSegment;

constexpr std::int64_t padded(std::int64_t bytes) {
  return contract::ceil_div<std::int64_t>(bytes, 16) * 16;
}

constexpr std::int64_t ids_bytes(std::int64_t count) {
  return padded(count * std::int64_t{sizeof(std::int32_t)});
}

bool has_work(const WorkQueue& queue) {
  return queue.segment_begin < queue.segment_end;
}

ImageBlock block_of(const contract::RowBlock& block, const StepArrays& step) {
  const std::int32_t qo_begin = step.qo_indptr[block.request];
  return {.request = block.request,
          .first_row = block.first_row,
          .qo_begin = qo_begin,
          .qo_len = step.qo_indptr[block.request + 1] - qo_begin,
          .kv_len = step.kv_lens[block.request],
          .first_page = step.kv.indptr[block.block_row],
          .row_count = block.row_count,
          .tile_class = block.tile_class,
          .view = block.view,
          .unused = 0};
}

/// Pieces repeat the rows of their row block, which is an item as well where a scheduler cuts whole
/// items: the first, in the order of row blocks. What is asked of the step for them is not asked
/// again.
void write_items(const PlanView& plan, const StepArrays& step, ImageItem* items) {
  const std::int32_t count = plan.header->num_items;
  const contract::RowBlock* const blocks = plan.row_blocks();
  const contract::WorkItem* const work = plan.items();
  std::int32_t whole = 0;
  for (; whole < count && work[whole].row_block == whole; ++whole) {
    const contract::WorkItem& item = work[whole];
    items[whole] = {block_of(blocks[whole], step), item.kv_begin, item.kv_end, item.slot, 0};
  }
  for (std::int32_t i = whole; i < count; ++i) {
    const contract::WorkItem& item = work[i];
    items[i].block = item.row_block < whole ? items[item.row_block].block
                                            : block_of(blocks[item.row_block], step);
    items[i].kv_begin = item.kv_begin;
    items[i].kv_end = item.kv_end;
    items[i].slot = item.slot;
    items[i].unused = 0;
  }
}

void write_queues(const PlanView& plan, const WorkSegment* segments, const ImageItem* items,
                  ImageQueue* queue) {
  for (std::int32_t q = 0; q < plan.header->num_queues; ++q) {
    const WorkQueue& work = plan.queues()[q];
    if (!has_work(work)) continue;
    queue->first_segment = segments[work.segment_begin];
    queue->first_item = items[queue->first_segment.item_begin];
    queue->segment_begin = work.segment_begin + 1;
    queue->segment_end = work.segment_end;
    queue->unused[0] = queue->unused[1] = 0;
    ++queue;
  }
}

void write_slots(const PlanView& plan, ImageSlot* slots) {
  for (std::int32_t m = 0; m < plan.header->num_merges; ++m) {
    const contract::MergeGroup& group = plan.merges()[m];
    std::fill_n(slots + group.slot_begin, group.slot_count,
                ImageSlot{m, group.slot_begin, group.slot_count, 0});
  }
}

template <class T>
T* section(std::byte* image, std::int64_t offset) {
  return reinterpret_cast<T*>(image + offset);
}

void write_ids(std::byte* image, std::int64_t begin, std::int64_t end, const std::int32_t* ids,
               std::int64_t count) {
  if (begin == end) return;
  const auto used = static_cast<std::size_t>(count) * sizeof *ids;
  std::memcpy(image + begin, ids, used);
  std::memset(image + begin + used, 0, static_cast<std::size_t>(end - begin) - used);
}

}  // namespace

StepArrays::StepArrays(const Problem& problem)
    : qo_indptr(problem.qo_indptr()), kv_lens(problem.kv_lens()), kv(problem.kv()) {}

StepArrays::StepArrays(const contract::AttentionParams& params)
    : qo_indptr(params.qo_indptr), kv_lens(params.kv_lens), kv(params.kv) {}

ImageLayout::ImageLayout(const PlanCounts& counts, std::int64_t num_empty, std::int64_t num_pages,
                         std::int64_t num_positions)
    : queues(sizeof(PlanImage)),
      segments(queues + counts.queues * std::int64_t{sizeof(ImageQueue)}),
      items(segments + counts.segments * std::int64_t{sizeof(WorkSegment)}),
      slots(items + counts.items * std::int64_t{sizeof(ImageItem)}),
      arrivals(slots + counts.slots * std::int64_t{sizeof(ImageSlot)}),
      empty(arrivals + ids_bytes(counts.merges)),
      pages(empty + num_empty * std::int64_t{sizeof(ImageBlock)}),
      positions(pages + ids_bytes(num_pages)),
      bytes(positions + ids_bytes(num_positions)) {}

ImageLayout image_layout(const PlanView& plan, const StepArrays& step) {
  const contract::PlanHeader& header = *plan.header;
  const std::int64_t pages = step.kv.indptr[step.kv.rows];
  return {{.queues = std::count_if(plan.queues(), plan.queues() + header.num_queues, has_work),
           .items = header.num_items,
           .segments = header.num_segments,
           .merges = header.num_merges,
           .slots = header.num_slots},
          header.num_empty_row_blocks,
          step.kv.indices != nullptr ? pages : 0,
          step.kv.positions != nullptr ? pages : 0};
}

void write_image(const PlanView& plan, const StepArrays& step, const ImageLayout& layout,
                 std::byte* out) {
  const contract::PlanHeader& header = *plan.header;
  auto* const items = section<ImageItem>(out, layout.items);
  write_items(plan, step, items);
  write_queues(plan, plan.segments(), items, section<ImageQueue>(out, layout.queues));
  std::copy_n(plan.segments(), header.num_segments, section<WorkSegment>(out, layout.segments));
  write_slots(plan, section<ImageSlot>(out, layout.slots));
  std::memset(out + layout.arrivals, 0, static_cast<std::size_t>(layout.empty - layout.arrivals));
  auto* const empty = section<ImageBlock>(out, layout.empty);
  for (std::int32_t e = 0; e < header.num_empty_row_blocks; ++e)
    empty[e] = block_of(plan.row_blocks()[plan.num_work_row_blocks() + e], step);

  const std::int64_t pages = step.kv.indptr[step.kv.rows];
  write_ids(out, layout.pages, layout.positions, step.kv.indices, pages);
  write_ids(out, layout.positions, layout.bytes, step.kv.positions, pages);

  PlanImage& image = *section<PlanImage>(out, 0);
  image = {.num_queues = static_cast<std::int32_t>((layout.segments - layout.queues) /
                                                   std::int64_t{sizeof(ImageQueue)}),
           .unused = 0,
           .num_empty = header.num_empty_row_blocks,
           .slot_rows = header.slot_rows,
           .segments_offset = layout.segments,
           .items_offset = layout.items,
           .slots_offset = layout.slots,
           .arrivals_offset = layout.arrivals,
           .empty_offset = layout.empty,
           .pages_offset = layout.pages < layout.positions ? layout.pages : 0,
           .positions_offset = layout.positions < layout.bytes ? layout.positions : 0,
           .bytes = layout.bytes};
}

std::int64_t image_bound(const PlanCounts& counts, const Limits& limits) {
  base::check(limits.max_pages > 0,
              "limits.max_pages is 0, expected a bound: the arrays of a step travel to the device");
  return ImageLayout(counts, counts.row_blocks, limits.max_pages, limits.max_pages).bytes;
}

}  // namespace trencadis::planner
