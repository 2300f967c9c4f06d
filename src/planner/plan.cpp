#include <trencadis/plan.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "planner/plan_reader.h"
#include "planner/planner.h"
#include "planner/workspace.h"

namespace trencadis {

using contract::MergeGroup;
using contract::RowBlock;
using contract::WorkItem;
using contract::WorkSegment;
using planner::Nanoseconds;
using planner::PlanReader;

namespace planner {

PlanReader::PlanReader(const Plan::Impl& plan)
    : view_(plan.buffer.view()), config_(plan.config.get()) {}

Nanoseconds PlanReader::cost(const WorkItem& item) const {
  const std::uint8_t tile_class = block_of(item).tile_class;
  const WorkRules& rules = config_->rules;
  return rules.cost.of(tile_class, tiles_of(item, rules.tiles.kv_shift[tile_class]));
}

std::vector<Nanoseconds> PlanReader::loads() const {
  // Items are shared by heads and queues: each is costed once, and a segment is a difference.
  std::vector<Nanoseconds> line(static_cast<std::size_t>(header().num_items) + 1, 0);
  for (int i = 0; i < header().num_items; ++i) line[i + 1] = line[i] + cost(view_.items()[i]);
  std::vector<Nanoseconds> loads(static_cast<std::size_t>(header().num_queues), 0);
  for (int q = 0; q < header().num_queues; ++q) {
    const contract::WorkQueue& queue = view_.queues()[q];
    for (int s = queue.segment_begin; s < queue.segment_end; ++s) {
      const WorkSegment& segment = view_.segments()[s];
      loads[q] += line[segment.item_end] - line[segment.item_begin];
    }
  }
  return loads;
}

std::int64_t PlanReader::kv_tokens() const {
  std::int64_t tokens = 0;
  for (int s = 0; s < header().num_segments; ++s) {
    const WorkSegment& segment = view_.segments()[s];
    if (segment.kv_head != 0) continue;
    for (int i = segment.item_begin; i < segment.item_end; ++i) {
      tokens += view_.items()[i].kv_end - view_.items()[i].kv_begin;
    }
  }
  return tokens;
}

std::int64_t PlanReader::token_begin(const RowBlock& block) const {
  return block.first_row / config_->rules.group;
}

std::int64_t PlanReader::token_end(const RowBlock& block) const {
  return (block.first_row + block.row_count - 1) / config_->rules.group + 1;
}

}  // namespace planner

Plan::Plan() : impl_(std::make_unique<Impl>()) {}
Plan::Plan(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Plan::~Plan() = default;
Plan::Plan(Plan&&) noexcept = default;
Plan& Plan::operator=(Plan&&) noexcept = default;

PlanStats Plan::stats() const {
  const PlanReader reader(*impl_);
  const contract::PlanHeader& header = reader.header();
  PlanStats stats;
  stats.requests = impl_->num_requests;
  stats.row_blocks = header.num_row_blocks;
  stats.items = header.num_items;
  stats.merges = header.num_merges;
  stats.partial_slots = header.num_slots;
  stats.queues = header.num_queues;
  stats.plan_bytes = header.bytes;
  stats.workspace_bytes = planner::workspace_of(*this).total_bytes;
  stats.kv_tokens_read = reader.kv_tokens();

  const std::vector<Nanoseconds> loads = reader.loads();
  if (loads.empty()) return stats;
  const auto total =
      static_cast<double>(std::accumulate(loads.begin(), loads.end(), Nanoseconds{0}));
  stats.longest_queue_us =
      static_cast<double>(*std::max_element(loads.begin(), loads.end())) * 1e-3;
  stats.mean_queue_us = total * 1e-3 / static_cast<double>(loads.size());
  if (total > 0) stats.balance = stats.longest_queue_us / stats.mean_queue_us;
  const std::int64_t pairs = std::int64_t{header.num_row_blocks} * impl_->config->heads.kv;
  if (pairs > 0) {
    stats.split_share = static_cast<double>(header.num_merges) / static_cast<double>(pairs);
  }
  return stats;
}

std::vector<PlanSpan> Plan::timeline() const {
  const PlanReader reader(*impl_);
  std::vector<PlanSpan> spans;
  int queue = -1;
  Nanoseconds now = 0;
  reader.for_each([&](int q, const WorkSegment& segment, const WorkItem& item) {
    if (q != queue) now = 0;
    queue = q;
    const RowBlock& block = reader.block_of(item);
    PlanSpan span{.queue = q, .request = block.request, .kv_head = segment.kv_head};
    span.row_begin = reader.token_begin(block);
    span.row_end = reader.token_end(block);
    span.kv_begin = item.kv_begin;
    span.kv_end = item.kv_end;
    if (item.slot != contract::kWriteThrough) span.partial_slot = segment.slot_base + item.slot;
    span.begin_us = static_cast<double>(now) * 1e-3;
    now += reader.cost(item);
    span.end_us = static_cast<double>(now) * 1e-3;
    spans.push_back(span);
  });
  return spans;
}

std::vector<PlanMerge> Plan::merges() const {
  const PlanReader reader(*impl_);
  std::vector<PlanMerge> merges;
  for (int m = 0; m < reader.header().num_merges; ++m) {
    const MergeGroup& group = reader.view().merges()[m];
    const RowBlock& block = reader.view().row_blocks()[group.row_block];
    merges.push_back({.request = block.request,
                      .kv_head = group.kv_head,
                      .row_begin = reader.token_begin(block),
                      .row_end = reader.token_end(block),
                      .first_slot = group.slot_begin,
                      .num_slots = group.slot_count});
  }
  return merges;
}

std::span<const std::byte> Plan::bytes() const {
  return impl_->buffer.bytes();
}

struct Planner::Impl {
  planner::Planner planner;
  Limits limits;
};

Planner::Planner(const AttentionSpec& spec, Heads heads, const DeviceLimits& device,
                 const PlanOptions& options, const Limits& limits)
    : impl_(new Impl{planner::Planner(spec, heads, device, options), limits}) {}
Planner::~Planner() = default;
Planner::Planner(Planner&&) noexcept = default;
Planner& Planner::operator=(Planner&&) noexcept = default;

void Planner::plan(const PlanInput& input, Plan& plan) {
  impl_->planner.plan(input, impl_->limits, plan);
}

Plan make_plan(const AttentionSpec& spec, Heads heads, const DeviceLimits& device,
               const PlanInput& input, const PlanOptions& options) {
  Plan plan;
  Planner(spec, heads, device, options).plan(input, plan);
  return plan;
}

}  // namespace trencadis
