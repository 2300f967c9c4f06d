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

/// Where the sections begin; one of no bytes is not there.
struct Layout {
  Layout(const PlanCounts& counts, std::int64_t num_empty, std::int64_t num_pages,
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

  std::int64_t queues, segments, items, slots, arrivals, empty, pages, positions, bytes;
};

bool has_work(const WorkQueue& queue) {
  return queue.segment_begin < queue.segment_end;
}

Layout layout_of(const PlanView& plan, const StepArrays& step) {
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

std::int64_t image_bytes(const PlanView& plan, const StepArrays& step) {
  return layout_of(plan, step).bytes;
}

void write_image(const PlanView& plan, const StepArrays& step, std::byte* out) {
  const contract::PlanHeader& header = *plan.header;
  const Layout layout = layout_of(plan, step);
  const contract::RowBlock* const blocks = plan.row_blocks();

  auto* const items = section<ImageItem>(out, layout.items);
  for (std::int32_t i = 0; i < header.num_items; ++i) {
    const contract::WorkItem& item = plan.items()[i];
    items[i] = {block_of(blocks[item.row_block], step), item.kv_begin, item.kv_end, item.slot, 0};
  }
  auto* const segments = section<WorkSegment>(out, layout.segments);
  std::copy_n(plan.segments(), header.num_segments, segments);
  auto* queue = section<ImageQueue>(out, layout.queues);
  for (std::int32_t q = 0; q < header.num_queues; ++q) {
    const WorkQueue& work = plan.queues()[q];
    if (!has_work(work)) continue;
    const WorkSegment& first = segments[work.segment_begin];
    *queue++ = {first, items[first.item_begin], work.segment_begin + 1, work.segment_end, {0, 0}};
  }
  auto* const slots = section<ImageSlot>(out, layout.slots);
  for (std::int32_t m = 0; m < header.num_merges; ++m) {
    const contract::MergeGroup& group = plan.merges()[m];
    std::fill_n(slots + group.slot_begin, group.slot_count,
                ImageSlot{m, group.slot_begin, group.slot_count, 0});
  }
  std::memset(out + layout.arrivals, 0, static_cast<std::size_t>(layout.empty - layout.arrivals));
  auto* const empty = section<ImageBlock>(out, layout.empty);
  for (std::int32_t e = 0; e < header.num_empty_row_blocks; ++e)
    empty[e] = block_of(blocks[plan.num_work_row_blocks() + e], step);

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
  return Layout(counts, counts.row_blocks, limits.max_pages, limits.max_pages).bytes;
}

}  // namespace trencadis::planner
