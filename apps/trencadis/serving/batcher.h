// Continuous batching: which tokens of which requests make up each step. Knows lengths and pages
// only, so it runs, and is tested, without an engine.
//
// Every step computes one token for each request that is decoding, and at most `chunk_tokens`
// tokens of prompts, in order of admission. Requests are admitted in order of arrival when they
// have arrived on the virtual clock, when fewer than `max_batch` are running and when the pool has
// pages for their prompt and answer; until then they wait. The clock moves by `step_time_s` a step
// and jumps over gaps in which nobody is served, so the steps depend on the trace and not on the
// speed of the machine.
#pragma once

#include <trencadis/block_sparse.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "serving/page_allocator.h"
#include "trace/trace_reader.h"

namespace trencadis::app {

struct BatcherOptions {
  std::int64_t max_batch = 64;
  std::int64_t chunk_tokens = 512;  // prompt tokens a step
  std::int64_t page_size = 16;
  std::int64_t num_pages = 0;
  double step_time_s = 0.05;  // 0: every request is there from the start
};

/// One step as plan() and append_kv() take it, the arrays in batch order.
struct Step {
  std::int64_t index = 0;
  std::vector<std::int64_t> lines;  // [B] of the trace: who the requests are
  std::vector<std::int32_t> qo_indptr;
  std::vector<std::int32_t> kv_indptr;      // [B + 1] pages
  std::vector<std::int32_t> kv_indices;     // page ids
  std::vector<std::int32_t> kv_lens;        // [B] tokens, those of this step included
  std::vector<std::int32_t> batch_indices;  // [nnz_q] request of each new token
  std::vector<std::int32_t> positions;      // [nnz_q] its position in the request
  std::int64_t decode_tokens = 0;
  std::int64_t prompt_tokens = 0;

  std::int64_t batch() const { return static_cast<std::int64_t>(kv_lens.size()); }
  std::int64_t tokens() const { return decode_tokens + prompt_tokens; }
  /// Decode and nothing else; else mixed.
  bool is_decode() const { return prompt_tokens == 0; }
  std::int64_t query_len(std::int64_t request) const {
    const auto b = static_cast<std::size_t>(request);
    return qo_indptr[b + 1] - qo_indptr[b];
  }
  /// Borrows the arrays.
  BlockSparseView page_table(std::int64_t page_size) const;
};

class Batcher {
 public:
  using Source = std::function<std::optional<TraceRequest>()>;

  /// `trace_name` is what errors call the source. Throws Error(invalid_argument) on options that
  /// are not positive.
  Batcher(const BatcherOptions& options, std::string trace_name, Source source);

  /// Forms the next step; false when every request is done. Throws what the source throws, and
  /// Error(out_of_capacity) for a request that the whole pool cannot hold.
  bool next(Step& step);

  std::int64_t finished() const { return finished_; }
  const PageAllocator& pages() const { return pages_; }

  /// Pages for all tokens of a request: the last answer token is never appended.
  static std::int64_t pages_needed(const TraceRequest& request, std::int64_t page_size);
  /// Throws Error(out_of_capacity) where a pool of num_pages can never hold the request.
  static void check_fits(const TraceRequest& request, std::int64_t page_size,
                         std::int64_t num_pages, const std::string& trace_name);

 private:
  struct Running {
    TraceRequest request;
    std::vector<std::int32_t> pages;
    std::int64_t kv_len = 0;  // tokens in the cache
    std::int64_t generated = 0;
    bool is_done() const;
  };

  void fetch();
  void retire();
  void admit();
  bool has_arrived(const TraceRequest& request) const;
  void add_to_step(Running& running, std::int64_t tokens, Step& step);

  BatcherOptions options_;
  std::string trace_name_;
  Source source_;
  PageAllocator pages_;
  std::optional<TraceRequest> waiting_;  // the next to be admitted
  std::deque<Running> running_;
  double clock_s_ = 0.0;
  std::int64_t steps_ = 0;
  std::int64_t finished_ = 0;
};

}  // namespace trencadis::app
