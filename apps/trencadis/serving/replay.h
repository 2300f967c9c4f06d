// Serves a trace: a step of the batcher, a plan, and for every layer an append and a run, on the
// host or on a GPU.
#pragma once

#include <trencadis/attention.h>

#include <cstdint>
#include <string>

#include "serving/batcher.h"
#include "serving/models.h"
#include "serving/report.h"
#include "trace/trace_reader.h"

namespace trencadis::app {

struct ReplayOptions {
  std::string trace;
  std::int64_t max_requests = 0;  // 0: all of the trace
  ModelShape model;
  DType dtype = DType::bf16;
  BackendKind backend = BackendKind::automatic;
  int threads = 0;                   // 0: all that the process may use
  BatcherOptions batching;           // num_pages is derived from pool_tokens
  std::int64_t pool_tokens = 0;      // 0: a pool that fits the machine
  std::int64_t workspace_bytes = 0;  // 0: what the limits ask for
  PlanOptions plan;
  std::int64_t verify_steps = 0;
  double read_rate_tbps = 0.0;  // 1e12 bytes a second to hold reads against; 0: measured
};

/// Reads the trace once to know that it is sound and a second time to serve it. Shows its progress
/// on stderr. Throws Error of any kind: a bad trace (io), a spec without a backend (not_supported),
/// a pool, a workspace or a machine that is too small (out_of_capacity).
ReplayReport replay(const ReplayOptions& options);

}  // namespace trencadis::app
