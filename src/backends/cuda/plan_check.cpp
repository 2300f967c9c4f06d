#include "backends/cuda/plan_check.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "base/check.h"
#include "codegen/cuda_service_source.h"
#include "contract/units.h"
#include "jit/artifact_cache.h"

namespace trencadis::cuda {
namespace {

using contract::ImageBlock;
using contract::ImageItem;
using contract::ImageQueue;
using contract::ImageSlot;
using contract::PlanFault;
using contract::PlanImage;
using contract::PlanPart;
using contract::PlanView;
using contract::WorkSegment;

// A quarter of a large device: the check is in front of every run.
constexpr unsigned kCtas = 32;
constexpr std::size_t kWarps = kCtas * codegen::kServiceThreads / 32;

DeviceModule load(const ContextPointer& context, const AttentionSpec& spec,
                  std::string_view architecture) {
  const jit::KernelSource source = codegen::check_plan_source(spec, architecture);
  const jit::LoadedArtifact code = jit::load_device_kernel(source, std::string(architecture));
  return DeviceModule(context, *code.artifact, source.name);
}

struct Field {
  std::size_t offset;  // bytes from the beginning of the part
  std::string_view name;
};

constexpr Field kHeaderFields[] = {{offsetof(PlanImage, num_queues), "num_queues"},
                                   {offsetof(PlanImage, num_empty), "num_empty"},
                                   {offsetof(PlanImage, slot_rows), "slot_rows"},
                                   {offsetof(PlanImage, segments_offset), "segments_offset"},
                                   {offsetof(PlanImage, items_offset), "items_offset"},
                                   {offsetof(PlanImage, slots_offset), "slots_offset"},
                                   {offsetof(PlanImage, arrivals_offset), "arrivals_offset"},
                                   {offsetof(PlanImage, empty_offset), "empty_offset"},
                                   {offsetof(PlanImage, pages_offset), "pages_offset"},
                                   {offsetof(PlanImage, positions_offset), "positions_offset"}};
constexpr Field kSegmentFields[] = {{offsetof(WorkSegment, kv_head), "kv_head"},
                                    {offsetof(WorkSegment, item_begin), "item_begin"},
                                    {offsetof(WorkSegment, item_end), "item_end"},
                                    {offsetof(WorkSegment, slot_base), "slot_base"}};
// An item begins with its row block.
constexpr Field kItemFields[] = {{offsetof(ImageBlock, request), "request"},
                                 {offsetof(ImageBlock, first_row), "first_row"},
                                 {offsetof(ImageBlock, qo_begin), "qo_begin"},
                                 {offsetof(ImageBlock, qo_len), "qo_len"},
                                 {offsetof(ImageBlock, kv_len), "kv_len"},
                                 {offsetof(ImageBlock, first_page), "first_page"},
                                 {offsetof(ImageBlock, row_count), "row_count"},
                                 {offsetof(ImageBlock, tile_class), "tile_class"},
                                 {offsetof(ImageBlock, unused), "unused"},
                                 {offsetof(ImageItem, kv_begin), "kv_begin"},
                                 {offsetof(ImageItem, kv_end), "kv_end"},
                                 {offsetof(ImageItem, slot), "slot"},
                                 {offsetof(ImageItem, unused), "unused"}};
constexpr Field kQueueFields[] = {{offsetof(ImageQueue, segment_begin), "segment_begin"},
                                  {offsetof(ImageQueue, segment_end), "segment_end"}};
constexpr Field kSlotFields[] = {{offsetof(ImageSlot, merge), "merge"},
                                 {offsetof(ImageSlot, slot_begin), "slot_begin"},
                                 {offsetof(ImageSlot, slot_count), "slot_count"}};

std::string_view name_in(std::span<const Field> fields, std::size_t offset) {
  const auto found = std::ranges::find(fields, offset, &Field::offset);
  return found == fields.end() ? "a field" : found->name;
}

std::string queue_field(std::size_t offset) {
  if (offset < offsetof(ImageQueue, first_item))
    return fmt::format("first_segment.{}", name_in(kSegmentFields, offset));
  if (offset < offsetof(ImageQueue, segment_begin))
    return fmt::format("first_item.{}",
                       name_in(kItemFields, offset - offsetof(ImageQueue, first_item)));
  return std::string(name_in(kQueueFields, offset));
}

/// "kv_end of item 12"
std::string place_of(const PlanFault& fault) {
  const auto offset = static_cast<std::size_t>(fault.field);
  switch (fault.part) {
    case PlanPart::header:
      return fmt::format("{} of the header", name_in(kHeaderFields, offset));
    case PlanPart::segment:
      return fmt::format("{} of segment {}", name_in(kSegmentFields, offset), fault.index);
    case PlanPart::item:
      return fmt::format("{} of item {}", name_in(kItemFields, offset), fault.index);
    case PlanPart::queue:
      return fmt::format("{} of queue {}", queue_field(offset), fault.index);
    case PlanPart::slot:
      return fmt::format("{} of slot {}", name_in(kSlotFields, offset), fault.index);
    case PlanPart::arrival:
      return fmt::format("the arrivals of merge {}", fault.index);
    case PlanPart::empty_block:
      return fmt::format("{} of empty row block {}", name_in(kItemFields, offset), fault.index);
    case PlanPart::page:
    case PlanPart::position:
      break;
  }
  return fmt::format("the position of entry {} of the page table", fault.field);
}

/// Of the row block that a fault belongs to, by the plan on the host, which no device has written.
std::int32_t request_of(const PlanView& plan, const PlanFault& fault) {
  const auto of_block = [&](std::int32_t block) { return plan.row_blocks()[block].request; };
  const auto of_item = [&](std::int32_t item) { return of_block(plan.items()[item].row_block); };
  const auto of_segment = [&](std::int32_t s) { return of_item(plan.segments()[s].item_begin); };
  switch (fault.part) {
    case PlanPart::header:
      break;
    case PlanPart::segment:
      return of_segment(fault.index);
    case PlanPart::item:
    case PlanPart::page:
    case PlanPart::position:
      return of_item(fault.index);
    case PlanPart::queue: {
      // Queues without work are not in the image.
      const contract::WorkQueue* queue = plan.queues();
      for (std::int32_t left = fault.index;; ++queue)
        if (queue->segment_begin < queue->segment_end && left-- == 0) break;
      return of_segment(queue->segment_begin);
    }
    case PlanPart::slot: {
      const std::span merges(plan.merges(), static_cast<std::size_t>(plan.header->num_merges));
      const auto found = std::ranges::find_if(merges, [&](const contract::MergeGroup& merge) {
        return fault.index - merge.slot_begin >= 0 &&
               fault.index - merge.slot_begin < merge.slot_count;
      });
      return found == merges.end() ? -1 : of_block(found->row_block);
    }
    case PlanPart::arrival:
      return of_block(plan.merges()[fault.index].row_block);
    case PlanPart::empty_block:
      return of_block(plan.num_work_row_blocks() + fault.index);
  }
  return -1;
}

std::string expected_of(const PlanFault& fault) {
  const bool slot =
      fault.part == PlanPart::item && fault.field == std::int32_t{offsetof(ImageItem, slot)};
  const char* const write_through = slot ? "-1" : "none that suits the fields before it";
  if (fault.lowest > fault.highest) return write_through;
  if (fault.lowest == fault.highest) return std::to_string(fault.lowest);
  return fmt::format("{} to {}{}", fault.lowest, fault.highest, slot ? ", or -1" : "");
}

}  // namespace

PlanCheck::PlanCheck(ContextPointer context, const AttentionSpec& spec,
                     std::string_view architecture)
    : context_(std::move(context)),
      module_(load(context_, spec, architecture)),
      kernel_(module_.function(codegen::kCheckPlanSymbol)),
      faults_(context_, kWarps * sizeof(PlanFault)),
      fetched_(context_, kWarps * sizeof(PlanFault)) {}

void PlanCheck::submitted(DevicePointer device, const PlanImage& header, const PlanView& plan,
                          const planner::StepArrays& step,
                          const contract::AttentionParams& params) {
  const contract::PlanHeader& counts = *plan.header;
  const bool listed = header.pages_offset != 0 || header.positions_offset != 0;
  params_ = {
      .plan = reinterpret_cast<const PlanImage*>(device),
      .faults = reinterpret_cast<PlanFault*>(faults_.get()),
      .expected = header,
      .pool_tokens = 0,
      .page_size = step.kv.block_cols,
      .num_ids = listed ? step.kv.indptr[step.kv.rows] : std::numeric_limits<std::int32_t>::max(),
      .num_merges = counts.num_merges,
      .num_requests = params.batch,
      .num_qo_tokens = step.qo_indptr[params.batch],
      .num_kv_heads = params.num_kv_heads,
      .group = params.num_qo_heads / params.num_kv_heads,
      .num_tile_classes = counts.num_tile_classes,
      .unused = 0,
      .tile_classes = {}};
  std::ranges::copy(counts.tile_classes, params_.tile_classes);
}

void PlanCheck::run(const PlanView& plan, std::int64_t pool_tokens, Stream stream) {
  params_.pool_tokens = pool_tokens;
  LaunchConfig config;
  config.grid_x = kCtas;
  config.block_x = codegen::kServiceThreads;
  config.stream = stream;
  void* parameters[] = {&params_};
  context_->launch_and_wait(config, kernel_, parameters);
  context_->driver().memcpy_dtoh_async(fetched_.data(), faults_.get(), faults_.bytes(), stream);
  context_->driver().stream_synchronize(stream);
  const std::span found(reinterpret_cast<const PlanFault*>(fetched_.data()), kWarps);
  const PlanFault& first = *std::ranges::min_element(found, {}, &PlanFault::order);
  if (first.order != PlanFault::kNone) fail(plan, first);
}

void PlanCheck::fail(const PlanView& plan, const PlanFault& fault) const {
  const std::int32_t request = request_of(plan, fault);
  if (fault.part == PlanPart::page && params_.expected.pages_offset != 0)
    base::fail(ErrorKind::invalid_argument,
               "kv_indices[{}] is {} on the device (request {}, page {} of its row), expected 0 to "
               "{}: k and v hold {} tokens in pages of {}; nothing was run",
               fault.field, fault.value, request, fault.column, fault.highest, params_.pool_tokens,
               params_.page_size);
  if (fault.part == PlanPart::page)
    base::fail(ErrorKind::invalid_argument,
               "request {} reads block {} of k and v, expected 0 to {}: they hold {} tokens in "
               "blocks of {}; nothing was run",
               request, fault.value, fault.highest, params_.pool_tokens, params_.page_size);
  base::fail(ErrorKind::internal,
             "the plan on the device is not as plan() wrote it: {}{} is {}, expected {}; something "
             "wrote over the workspace, or the engine has a defect, which please report; nothing "
             "was run",
             place_of(fault), request < 0 ? "" : fmt::format(" (request {})", request), fault.value,
             expected_of(fault));
}

}  // namespace trencadis::cuda
