// Reads a finished plan for people: costs, loads, spans.
#pragma once

#include <trencadis/plan.h>

#include <vector>

#include "contract/plan.h"
#include "planner/plan_impl.h"

namespace trencadis::planner {

class PlanReader {
 public:
  explicit PlanReader(const Plan::Impl& plan);

  const contract::PlanHeader& header() const { return *view_.header; }
  const contract::PlanView& view() const { return view_; }
  const contract::RowBlock& block_of(const contract::WorkItem& item) const {
    return view_.row_blocks()[item.row_block];
  }
  Nanoseconds cost(const contract::WorkItem& item) const;
  /// Predicted cost of each queue.
  std::vector<Nanoseconds> loads() const;
  /// Storage tokens that one head's items read, each KV token once a row block.
  std::int64_t kv_tokens() const;
  /// Query tokens of a row block, rounded out where a group straddles its ends.
  std::int64_t token_begin(const contract::RowBlock& block) const;
  std::int64_t token_end(const contract::RowBlock& block) const;

  /// f(queue, segment, item) in queue order.
  template <class F>
  void for_each(F f) const {
    for (int q = 0; q < header().num_queues; ++q) {
      const contract::WorkQueue& queue = view_.queues()[q];
      for (int s = queue.segment_begin; s < queue.segment_end; ++s) {
        const contract::WorkSegment& segment = view_.segments()[s];
        for (int i = segment.item_begin; i < segment.item_end; ++i) {
          f(q, segment, view_.items()[i]);
        }
      }
    }
  }

 private:
  contract::PlanView view_;
  const PlannerConfig* config_;  // null for an empty plan, which has no items
};

}  // namespace trencadis::planner
