// (lengths, block tables, device limits, options) -> a schedule. A pure function of host data.
#pragma once

#include <trencadis/plan.h>

#include <memory>
#include <string_view>

#include "planner/even_cut.h"
#include "planner/l2_windows.h"
#include "planner/longest_first.h"
#include "planner/plan_impl.h"
#include "planner/schedule.h"
#include "planner/splitter.h"

namespace trencadis::planner {

/// Throws Error(invalid_argument) that calls the two counts as the caller does.
void check_heads(Heads heads, std::string_view qo_name, std::string_view kv_name);

/// When items are cut along KV.
enum class Cutting {
  never,
  while_placing,  // by the even cut
  balanced,       // before placing, by the chunk bound of Algorithm 1
  fixed,          // before placing, at a distance that the options give
};

/// What the options alone say.
Cutting cutting(const PlanOptions& options);
/// What was done: where the choice is free, short work is cut before it is placed, and work that is
/// dealt is not cut.
Cutting cutting(const Plan::Impl& plan);

/// Of Cutting::fixed.
struct ChunkPolicy {
  std::int64_t tokens = 0;
  bool lone_blocks_only = false;
};
ChunkPolicy chunk_policy(const PlanOptions& options);

/// Items that are not cut while they are placed: longest first up to this many (item, KV head)
/// pairs a queue, else cut between items. docs/decisions/0005-scheduler.md has the measurements.
inline constexpr std::int64_t kLongestFirstPairs = 16;

/// Where the mean queue holds less than this many item overheads, a share is a few tiles and its
/// cut rarely lies well: chunks of Algorithm 1, equal within each item, are up to 1.7 times faster
/// there.
inline constexpr std::int64_t kShortQueueOverheads = 3;

/// Items that need not be cut: dealt whole, in windows of L2, from this many (item, KV head) pairs
/// a queue, so that the last of them weighs little, up to this many, as each has a segment; and
/// where the longest queue exceeds the mean and an item overhead by at most so many percent.
inline constexpr std::int64_t kMinDealtPairs = 4;
inline constexpr std::int64_t kMaxDealtPairs = 64;
inline constexpr Nanoseconds kDealtOverrunPercent = 8;

/// Whether Scheduler::automatic may take Scheduler::l2_windows: KV may be split, products bound a
/// tile class, and the device tells of an L2.
bool may_deal(const PlannerConfig& config);

/// Plans step after step for one operator; scratch and plans keep their memory, so that in a steady
/// state nothing is allocated. Not for concurrent use.
class Planner {
 public:
  /// Throws Error(invalid_argument | not_supported).
  Planner(const AttentionSpec& spec, Heads heads, const DeviceLimits& device,
          const PlanOptions& options);

  /// Validates `input`, checks it against `limits` and writes the schedule over `plan`. On error
  /// `plan` is spoilt: keep the one in force elsewhere and swap. Throws Error(invalid_argument |
  /// out_of_capacity), and what input.kv_bounds throws.
  void plan(const PlanInput& input, const Limits& limits, Plan& plan);

  const PlannerConfig& config() const { return *config_; }

 private:
  HeadWork list_work(const PlanInput& input, std::int32_t row_blocks, Plan::Impl& plan);
  bool is_short(const HeadWork& whole) const;
  ChunkRule chunk_rule(Cutting cutting, const HeadWork& whole) const;
  HeadWork split_items(Cutting cutting, const HeadWork& whole, PlanBuffer& buffer);
  bool gains_from_l2(const Problem& problem, const HeadWork& whole) const;
  std::int64_t window_tokens() const;
  bool deal(const Problem& problem, const HeadWork& whole);
  Scheduler place(Cutting cutting, const HeadWork& work);
  void finish(Scheduler used, Plan::Impl& plan) const;

  std::shared_ptr<const PlannerConfig> config_;
  Cutting cutting_;
  bool may_deal_;
  Schedule schedule_;
  EvenCut even_cut_;
  LongestFirst longest_first_;
  L2Windows l2_windows_;
  Reused<Nanoseconds> line_, chunk_line_;
  Reused<contract::WorkItem> whole_items_;
};

}  // namespace trencadis::planner
