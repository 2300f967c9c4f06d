// The inspector: lengths and block tables in, a schedule out. Pure host data; no device is touched.
#pragma once

#include <trencadis/attention_spec.h>
#include <trencadis/block_sparse.h>
#include <trencadis/device_limits.h>
#include <trencadis/index_span.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace trencadis {

/// What a graph, a workspace and a plan are sized for. Zero: no bound (the workspace grows with the
/// plans; not for graphs).
struct Limits {
  std::int64_t max_batch = 0;
  std::int64_t max_qo_tokens = 0;
  std::int64_t max_pages = 0;      // entries of `indices`
  std::int64_t max_kv_tokens = 0;  // of one request
};

enum class SplitMode : std::uint8_t {
  automatic,  // split KV where it shortens the makespan
  none,       // never
  fixed,      // every fixed_split_tokens
};

enum class Scheduler : std::uint8_t {
  automatic,      // the measured choice a regime (docs/decisions/)
  even_cut,       // all work on one line, cut into equal shares
  longest_first,  // Algorithm 1 of the paper: chunks, longest first, onto the least-loaded queue
  l2_windows,     // head by head, so that CTAs that run at one time share K and V in L2
};

/// Half-open range of logical KV positions.
struct KvRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

struct PlanOptions {
  SplitMode split = SplitMode::automatic;
  std::int64_t fixed_split_tokens = 0;  // > 0 with SplitMode::fixed; rounded up to T_kv
  /// A request's tiles and splits depend on its own lengths only, so its bits do not depend on the
  /// rest of the batch. With SplitMode::automatic, requests whose rows one query tile holds are
  /// split every fixed_split_tokens (2,048 unless given); longer queries are parallel as they are.
  bool batch_invariant = false;
  Scheduler scheduler = Scheduler::automatic;
};

struct PlanInput {
  IndexSpan qo_indptr = {};  // [B + 1] query tokens
  IndexSpan kv_lens = {};    // [B] logical KV tokens of each request
  /// The storage. Borrowed until the last run() of the plan returns (CPU) or is enqueued and copied
  /// (CUDA).
  BlockSparseView kv = {};
  /// Declared bounds of a mask that lengths alone do not give (prefix-LM, documents): the logical
  /// KV range that rows [row_begin, row_end) of `request` can see. Intersected with the variant's.
  std::function<KvRange(std::int64_t request, std::int64_t row_begin, std::int64_t row_end)>
      kv_bounds = {};
};

/// One piece of work as the schedule places it. Costs are predicted microseconds since the launch.
struct PlanSpan {
  int queue = 0;
  int request = 0;
  int kv_head = 0;
  std::int64_t row_begin = 0,
               row_end = 0;               // query tokens of the request (rows / group, rounded out)
  std::int64_t kv_begin = 0, kv_end = 0;  // storage tokens
  int partial_slot = -1;                  // -1: written through
  double begin_us = 0.0, end_us = 0.0;
};

struct PlanMerge {
  int request = 0;
  int kv_head = 0;
  std::int64_t row_begin = 0, row_end = 0;
  int first_slot = 0;
  int num_slots = 0;
};

struct PlanStats {
  std::int64_t requests = 0, row_blocks = 0, items = 0, merges = 0, partial_slots = 0;
  int queues = 0;
  double longest_queue_us = 0.0, mean_queue_us = 0.0;  // predicted
  double balance = 1.0;                                // longest / mean
  double split_share = 0.0;                            // of (row block, KV head) pairs
  std::int64_t kv_tokens_read = 0;                     // per KV head, all row blocks
  std::int64_t plan_bytes = 0;                         // copied to the device
  std::int64_t workspace_bytes = 0;                    // plan and partial states as used
};

/// A finished schedule, to look at and to explain. Executing one is Attention's business.
class Plan {
 public:
  Plan();
  ~Plan();
  Plan(Plan&&) noexcept;
  Plan& operator=(Plan&&) noexcept;

  PlanStats stats() const;
  /// Why this plan is as it is, in words: tile classes, chunk, queues, slots, bytes, cost.
  std::string explain() const;
  /// Every span in queue order, KV heads expanded.
  std::vector<PlanSpan> timeline() const;
  std::vector<PlanMerge> merges() const;
  /// The bytes that travel to the device: equal inputs give equal bytes.
  std::span<const std::byte> bytes() const;

  struct Impl;
  explicit Plan(std::unique_ptr<Impl> impl);
  const Impl& impl() const { return *impl_; }
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

/// Plans step after step without a device; what Attention does before run(). Plans and scratch keep
/// their memory, so that a steady state allocates nothing. Not for concurrent use.
class Planner {
 public:
  /// Throws Error(invalid_argument | not_supported) for heads, options or limits out of range, and
  /// head dims that no tile of the device holds.
  Planner(const AttentionSpec& spec, Heads heads, const DeviceLimits& device,
          const PlanOptions& options = {}, const Limits& limits = {});
  ~Planner();
  Planner(Planner&&) noexcept;
  Planner& operator=(Planner&&) noexcept;

  /// Writes the schedule of `input` over `plan`, which an error leaves unusable. The page size
  /// comes with input.kv. Throws Error(invalid_argument | out_of_capacity) as Attention::plan does.
  void plan(const PlanInput& input, Plan& plan);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// One plan by a Planner of its own.
Plan make_plan(const AttentionSpec& spec, Heads heads, const DeviceLimits& device,
               const PlanInput& input, const PlanOptions& options = {});

}  // namespace trencadis
