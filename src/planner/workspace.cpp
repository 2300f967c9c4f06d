#include "planner/workspace.h"

#include <algorithm>

#include "base/check.h"
#include "planner/plan_image.h"
#include "planner/planner.h"

namespace trencadis::planner {
namespace {

using contract::ceil_div;

/// Limits may be as large as int32, and a product of several of them larger than any memory.
std::int64_t times(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product) || product > std::int64_t{1} << 56)
    base::fail(ErrorKind::out_of_capacity,
               "the limits ask for a workspace of more than 2^56 bytes; set tighter ones");
  return product;
}

std::int64_t aligned(std::int64_t bytes) {
  return ceil_div<std::int64_t>(bytes, 256) * 256;
}

WorkspaceLayout lay_out(std::int64_t plan_bytes, std::int64_t partial_rows, std::int64_t dim) {
  constexpr std::int64_t kFloat = 4;
  WorkspaceLayout layout;
  layout.partial_o_offset = aligned(plan_bytes);
  layout.partial_lse_offset = layout.partial_o_offset + aligned(times(partial_rows, dim * kFloat));
  layout.total_bytes = layout.partial_lse_offset + aligned(partial_rows * kFloat);
  return layout;
}

/// Slots of one head where chunks of fixed size are cut before they are placed.
///
/// A row block over k keys is split into ceil(k / c) chunks, c the tokens of the smallest chunk.
/// (a) With k <= max_kv_tokens: at most row_blocks * ceil(max_kv_tokens / c) slots.
/// (b) Only k > c splits, and then ceil(k / c) < 2 k / c. Where only lone row blocks split, the
/// keys
///     of all of them are at most the tokens of all pages: at most 2 max_pages P / c slots.
std::int64_t fixed_slots(const PlannerConfig& config, const Limits& limits, std::int64_t page_size,
                         std::int64_t row_blocks) {
  const ChunkPolicy policy = chunk_policy(config.options);
  std::int64_t chunk = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(config.rules.tiles.count); ++i) {
    const std::int64_t tile = config.rules.tiles.classes[i].kv_tokens;
    const std::int64_t rounded = ceil_div(policy.tokens, tile) * tile;
    chunk = chunk == 0 ? rounded : std::min(chunk, rounded);
  }
  std::int64_t slots = -1;
  const auto improve = [&slots](std::int64_t bound) {
    slots = slots < 0 ? bound : std::min(slots, bound);
  };
  if (limits.max_kv_tokens > 0) improve(times(row_blocks, ceil_div(limits.max_kv_tokens, chunk)));
  if (limits.max_pages > 0 && policy.lone_blocks_only) {
    improve(ceil_div(times(2 * limits.max_pages, page_size), chunk));
  }
  base::check(slots >= 0,
              "limits.max_kv_tokens is 0, expected a bound: with fixed splits the workspace grows "
              "with the longest request");
  return slots;
}

/// Row blocks: a block row of t > 0 tokens gives ceil(t g / T) <= t g / T + 1 of them, T the
/// largest T_q, because shorter rows get one block; and no more block rows hold a token than there
/// are tokens, nor, where rows are requests, than requests. Views with rows of their own are
/// bounded by tokens alone, so that is the bound. A row block that sees no key has no item.
PlanCounts bound_counts(const PlannerConfig& config, const Limits& limits, std::int64_t page_size) {
  const std::int64_t tokens = limits.max_qo_tokens;
  const std::int64_t queues = config.device.num_ctas;
  const std::int64_t heads = config.heads.kv;
  PlanCounts bound{.queues = queues};
  bound.row_blocks =
      tokens + times(tokens, config.heads.group()) / config.rules.tiles.largest_query_tile();
  switch (cutting(config.options)) {
    case Cutting::while_placing:
      // Short work that is cut before it is placed: as Cutting::balanced, and of whole pairs there
      // are fewer than kShortQueueOverheads a queue, as each costs an overhead.
      static_assert(kShortQueueOverheads + 2 <= kLongestFirstPairs);
      // Two pieces a queue (even_cut.h); a queue's run of whole items is one segment, and one more
      // for each head that it enters.
      bound.items = bound.row_blocks + 2 * queues;
      bound.slots = 2 * queues;
      break;
    case Cutting::balanced:
      // splitter.h: at most 2 #queues slots over all heads.
      bound.items = bound.row_blocks + 2 * queues;
      bound.slots = 2 * queues;
      break;
    case Cutting::fixed: {
      const std::int64_t slots = fixed_slots(config, limits, page_size, bound.row_blocks);
      bound.items = bound.row_blocks + slots;
      bound.slots = times(slots, heads);
      break;
    }
    case Cutting::never:
      bound.items = bound.row_blocks;
      break;
  }
  // Runs of the even cut: at most 3 a queue and one a head. Longest first has one segment for each
  // (item, head), and so have windows of L2, at most; where the choice is free, they place no more
  // than their share of a queue, and windows of L2 whole items only.
  const std::int64_t runs = 3 * queues + heads;
  const std::int64_t pairs = times(bound.items, heads);
  switch (config.options.scheduler) {
    case Scheduler::even_cut:
      bound.segments = runs;
      break;
    case Scheduler::longest_first:
    case Scheduler::l2_windows:
      bound.segments = pairs;
      break;
    case Scheduler::automatic:
      bound.segments = std::max(runs, std::min(pairs, kLongestFirstPairs * queues));
      if (may_deal(config)) {
        const std::int64_t whole = times(bound.row_blocks, heads);
        bound.segments = std::max(bound.segments, std::min(whole, kMaxDealtPairs * queues));
      }
      break;
  }
  bound.merges = bound.slots / 2;  // a merge has two slots or more
  return bound;
}

}  // namespace

WorkspaceLayout workspace_bound(const PlannerConfig& config, const Limits& limits,
                                std::int64_t page_size, Travels travels) {
  base::check(limits.max_qo_tokens > 0,
              "limits.max_qo_tokens is {}, expected a bound to size the workspace by",
              limits.max_qo_tokens);
  const PlanCounts bound = bound_counts(config, limits, page_size);
  const std::int64_t plan_bytes =
      travels == Travels::yes ? image_bound(bound, limits)
                              : PlanBuffer::bytes_for(bound.queues, bound.row_blocks, bound.items,
                                                      bound.segments, bound.merges);
  // A slot has as many rows as the largest tile that splits, and no tile has more rows than the
  // largest that a limit on tokens leaves in use.
  const int largest = config.rules.tiles.class_of(limits.max_qo_tokens * config.heads.group());
  const std::int64_t slot_rows =
      config.rules.tiles.classes[static_cast<std::size_t>(largest)].q_rows;
  return lay_out(plan_bytes, times(bound.slots, slot_rows), config.spec.vo());
}

WorkspaceLayout workspace_of(const Plan& plan, Travels travels) {
  const contract::PlanView view = plan.impl().buffer.view();
  const contract::PlanHeader& header = *view.header;
  const auto& config = plan.impl().config;
  const std::int64_t rows = std::int64_t{header.num_slots} * header.slot_rows;
  const std::int64_t plan_bytes = travels == Travels::yes
                                      ? image_layout(view, StepArrays(plan.impl().problem)).bytes
                                      : header.bytes;
  return lay_out(plan_bytes, rows, config == nullptr ? 0 : config->spec.vo());
}

bool fits(const Plan& plan, const WorkspaceLayout& layout, Travels travels) {
  const WorkspaceLayout used = workspace_of(plan, travels);
  return used.partial_o_offset <= layout.partial_o_offset &&
         used.partial_lse_offset - used.partial_o_offset <=
             layout.partial_lse_offset - layout.partial_o_offset &&
         used.total_bytes - used.partial_lse_offset <=
             layout.total_bytes - layout.partial_lse_offset;
}

}  // namespace trencadis::planner
