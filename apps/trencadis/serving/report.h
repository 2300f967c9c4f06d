// What a replay measured, as a table and as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "picture/plan_picture.h"
#include "serving/verifier.h"

namespace trencadis::app {

/// Samples of one quantity, all kept: the median and the 99th percentile are exact.
class Distribution {
 public:
  void add(double value) { values_.push_back(value); }
  std::int64_t count() const { return static_cast<std::int64_t>(values_.size()); }
  double sum() const;
  double mean() const { return values_.empty() ? 0.0 : sum() / static_cast<double>(count()); }
  double max() const;
  double median() const { return quantile(0.5); }
  double p99() const { return quantile(0.99); }
  /// The smallest sample that at least `share` of them do not exceed; 0 where there is none.
  double quantile(double share) const;

 private:
  std::vector<double> values_;
};

/// What the report of a GPU holds beyond a CPU's. Of decode steps, all layers together.
struct GpuReport {
  std::int64_t pool_bytes = 0;
  bool read_rate_given = false;  // else measured
  Distribution decode_batch;
  Distribution floor_us;     // that reading the step's keys and values takes at the read rate
  Distribution floor_share;  // of the time that the step took; 1 is the floor itself
};

struct ReplayReport {
  // What ran.
  std::string trace, backend, device, model, dtype;
  int num_qo_heads = 0, num_kv_heads = 0, head_dim = 0, layers = 0, threads = 0;
  std::int64_t page_size = 0, pool_pages = 0;

  // How much.
  std::int64_t requests = 0, input_tokens = 0, output_tokens = 0;
  std::int64_t steps = 0, decode_steps = 0;
  double wall_s = 0.0, append_s = 0.0, verify_s = 0.0;

  // How fast: microseconds a plan() call; microseconds a step, run() of all layers together, on a
  // GPU by its own clock.
  Distribution plan_us, attention_us, decode_us, mixed_us;
  double decode_kv_bytes = 0.0;  // that decode steps had to read
  double machine_read_gbps = 0.0;

  std::optional<GpuReport> gpu;

  // How well planned. Summed over the steps before they are divided, so that a step counts by the
  // time it takes and not as much as one with a single short request.
  double longest_queues_us = 0.0, mean_queues_us = 0.0;  // predicted
  Distribution step_balance, split_share;                // of each step

  // How right.
  std::optional<Verification> verification;

  std::optional<PlanPicture> picture;  // of the mixed step that shows the most

  /// Of decode steps, 1e9 bytes a second; nothing where no step was pure decode.
  std::optional<double> decode_read_gbps() const;
  std::optional<double> read_share() const;
  /// Longest queue over mean; 1 where nothing was planned.
  double balance() const;
};

std::string to_table(const ReplayReport& report);
std::string to_json(const ReplayReport& report);

}  // namespace trencadis::app
