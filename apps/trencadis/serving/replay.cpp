#include "serving/replay.h"

#include <trencadis/kv_cache.h>
#include <trencadis/runtime.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>

#include "output/failure.h"
#include "output/progress.h"
#include "serving/kv_pool.h"
#include "serving/model_attention.h"
#include "serving/verifier.h"

namespace trencadis::app {
namespace {

using Clock = std::chrono::steady_clock;

// Enough for the default batch of requests as long as those of the public traces of conversations.
constexpr std::int64_t kDefaultPoolTokens = 131'072;
// A pool that nobody asked for leaves most of the memory to others.
constexpr double kDefaultPoolBytes = 4e9;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

PoolShape pool_shape(const ReplayOptions& options, const TraceSummary& summary) {
  PoolShape shape{options.model.num_layers,   0,
                  options.batching.page_size, options.model.num_kv_heads,
                  options.model.head_dim,     options.dtype};
  std::int64_t tokens = options.pool_tokens;
  if (tokens == 0) {
    const auto affordable =
        static_cast<std::int64_t>(kDefaultPoolBytes / static_cast<double>(shape.bytes_per_token()));
    const std::int64_t longest = summary.longest.input_tokens + summary.longest.output_tokens;
    tokens = std::max(std::min(kDefaultPoolTokens, affordable), longest);
  }
  shape.pages = ceil_div(tokens, shape.page_size);
  Batcher::check_fits(summary.longest, shape.page_size, shape.pages, options.trace);
  return shape;
}

/// The trace's first `max_requests` requests.
Batcher::Source source_of(const std::string& path, std::int64_t max_requests) {
  std::shared_ptr<TraceReader> reader = open_trace(path);
  return [reader, left = max_requests, limited = max_requests > 0]() mutable {
    if (limited && left-- == 0) return std::optional<TraceRequest>();
    return reader->next();
  };
}

std::vector<std::string> request_labels(const Step& step) {
  std::vector<std::string> labels;
  for (std::int64_t b = 0; b < step.batch(); ++b)
    labels.push_back(fmt::format("line {}: q {}, kv {}", step.lines[static_cast<std::size_t>(b)],
                                 step.query_len(b), step.kv_lens[static_cast<std::size_t>(b)]));
  return labels;
}

/// Spreads K samples over the tokens of a trace, by turns a mixed step and a decode step.
class Sampler {
 public:
  Sampler(std::int64_t samples, std::int64_t total_tokens)
      : samples_(samples), total_(total_tokens) {}

  bool wants(const Step& step, std::int64_t tokens_done) {
    // In the middle of the K-th part of the trace, where the batch is full.
    if (taken_ == samples_ || 2 * tokens_done * samples_ < (2 * taken_ + 1) * total_) return false;
    const bool wants_mixed = taken_ % 2 == 0;
    if (step.is_decode() == wants_mixed && ++patience_ < kPatience) return false;
    patience_ = 0;
    ++taken_;
    return true;
  }

 private:
  static constexpr int kPatience = 64;  // steps to wait for one of the wanted kind

  std::int64_t samples_, total_, taken_ = 0;
  int patience_ = 0;
};

class Replay {
 public:
  Replay(const ReplayOptions& options, const TraceSummary& summary)
      : options_(options),
        summary_(summary),
        pool_shape_(pool_shape(options, summary)),
        max_tokens_(options.batching.max_batch + options.batching.chunk_tokens),
        batcher_(batching(), options.trace, source_of(options.trace, options.max_requests)),
        workspace_(make_workspace()),
        engine_(options.model, options.dtype, options.dtype, config()),
        pool_(pool_shape_),
        queries_(bank("the queries", options.model.num_qo_heads, 1)),
        keys_(bank("the new keys", options.model.num_kv_heads, 2)),
        values_(bank("the new values", options.model.num_kv_heads, 3)),
        out_("the output", options.dtype,
             {max_tokens_, options.model.num_qo_heads, options.model.head_dim}),
        lse_("the LSE", DType::f32, {max_tokens_, options.model.num_qo_heads}),
        sampler_(options.verify_steps, total_tokens()) {
    if (options.verify_steps > 0)
      verifier_.emplace(options.model, options.dtype, config(), max_tokens_);
  }

  ReplayReport run() {
    describe_run();
    report_.machine_read_gbps = measure_read_bandwidth(options_.threads);
    Progress progress("serving", total_tokens());
    const auto start = Clock::now();
    Step step;
    while (batcher_.next(step)) {
      plan(step);
      serve(step);
      tokens_done_ += step.tokens();
      if (progress.is_due(tokens_done_))
        progress.update(tokens_done_, fmt::format("{} of {} requests, step {}", batcher_.finished(),
                                                  summary_.requests, step.index + 1));
    }
    report_.wall_s = microseconds_since(start) * 1e-6;
    report_.requests = batcher_.finished();
    if (verifier_) report_.verification = verifier_->result();
    return std::move(report_);
  }

 private:
  /// That steps compute; the last token of an answer is never fed back.
  std::int64_t total_tokens() const {
    return summary_.input_tokens +
           std::max<std::int64_t>(summary_.output_tokens - summary_.requests, 0);
  }

  BatcherOptions batching() const {
    BatcherOptions batching = options_.batching;
    batching.num_pages = pool_shape_.pages;
    return batching;
  }

  AttentionConfig config() const {
    AttentionConfig config;
    config.page_size = options_.batching.page_size;
    config.backend = options_.backend;
    config.num_threads = options_.threads;
    config.limits = {options_.batching.max_batch, max_tokens_, pool_shape_.pages,
                     summary_.longest.input_tokens + summary_.longest.output_tokens};
    config.plan = options_.plan;
    config.workspace = workspace_.view();
    return config;
  }

  HostTensor make_workspace() const {
    if (options_.workspace_bytes == 0) return {};
    return {"the workspace", DType::u8, {options_.workspace_bytes}};
  }

  TokenBank bank(const char* what, int heads, std::uint64_t seed) const {
    return {what, options_.dtype, max_tokens_, heads, options_.model.head_dim, seed};
  }

  void describe_run() {
    report_.trace = std::filesystem::path(options_.trace).filename().string();
    report_.backend = to_string(engine_.kind(0).backend());
    report_.device = engine_.kind(0).device_limits().name;
    report_.model = describe(options_.model);
    report_.dtype = to_string(options_.dtype);
    report_.num_qo_heads = options_.model.num_qo_heads;
    report_.num_kv_heads = options_.model.num_kv_heads;
    report_.head_dim = options_.model.head_dim;
    report_.layers = options_.model.num_layers;
    report_.page_size = pool_shape_.page_size;
    report_.pool_pages = pool_shape_.pages;
    report_.input_tokens = summary_.input_tokens;
    report_.output_tokens = summary_.output_tokens;
  }

  void plan(const Step& step) {
    for (std::size_t kind = 0; kind < engine_.num_kinds(); ++kind) {
      const auto start = Clock::now();
      engine_.plan(kind, step);
      report_.plan_us.add(microseconds_since(start));
    }
    const Plan& plan = engine_.kind(0).current_plan();
    const PlanStats stats = plan.stats();
    report_.longest_queues_us += stats.longest_queue_us;
    report_.mean_queues_us += stats.mean_queue_us;
    report_.step_balance.add(stats.balance);
    report_.split_share.add(stats.split_share);
    keep_if_telling(step, plan, stats);
  }

  /// A picture shows most where prompts meet decodes, KV is split and many requests take part.
  void keep_if_telling(const Step& step, const Plan& plan, const PlanStats& stats) {
    const std::int64_t telling =
        step.batch() + (step.is_decode() ? 0 : 10'000) + (stats.merges > 0 ? 10'000 : 0);
    if (telling <= most_telling_) return;
    most_telling_ = telling;
    report_.picture = picture_of(plan, fmt::format("Step {} of {}", step.index, report_.trace),
                                 report_.device, request_labels(step));
  }

  void serve(const Step& step) {
    const bool sampled = sampler_.wants(step, tokens_done_);
    double attention_us = 0.0;
    for (int layer = 0; layer < options_.model.num_layers; ++layer) {
      append(step, layer);
      const RunArgs args = run_args(step, layer, sampled);
      const auto start = Clock::now();
      engine_.layer(layer).run(args);
      attention_us += microseconds_since(start);
      if (sampled && layer == step.index % options_.model.num_layers) verify(step, layer, args);
    }
    ++report_.steps;
    report_.attention_us.add(attention_us);
    (step.is_decode() ? report_.decode_us : report_.mixed_us).add(attention_us);
    if (step.is_decode()) {
      ++report_.decode_steps;
      report_.decode_kv_bytes += engine_.visible_kv_bytes(step);
    }
  }

  void append(const Step& step, int layer) {
    BlockSparseView table;
    table.block_cols = pool_shape_.page_size;
    table.indptr = step.kv_indptr;
    table.indices = step.kv_indices;
    table.kv_lens = step.kv_lens;
    const auto start = Clock::now();
    append_kv(keys_.rows(step.index, layer, step.tokens()),
              values_.rows(step.index, layer, step.tokens()), step.batch_indices, step.positions,
              pool_.keys(layer), pool_.values(layer), table);
    report_.append_s += microseconds_since(start) * 1e-6;
  }

  void verify(const Step& step, int layer, const RunArgs& args) {
    const auto start = Clock::now();
    verifier_->check(step, layer, args);
    report_.verify_s += microseconds_since(start) * 1e-6;
  }

  RunArgs run_args(const Step& step, int layer, bool with_lse) const {
    RunArgs args;
    args.q = queries_.rows(step.index, layer, step.tokens());
    args.k = pool_.keys(layer);
    args.v = pool_.values(layer);
    args.out = out_.view().slice(0, 0, step.tokens());
    if (with_lse) args.lse = lse_.view().slice(0, 0, step.tokens());
    return args;
  }

  const ReplayOptions& options_;
  const TraceSummary& summary_;
  PoolShape pool_shape_;
  std::int64_t max_tokens_;  // of a step
  Batcher batcher_;
  HostTensor workspace_;
  ModelAttention engine_;
  KvPool pool_;
  TokenBank queries_, keys_, values_;
  HostTensor out_, lse_;
  std::optional<Verifier> verifier_;
  Sampler sampler_;
  ReplayReport report_;
  std::int64_t tokens_done_ = 0;
  std::int64_t most_telling_ = 0;
};

}  // namespace

ReplayReport replay(const ReplayOptions& options) {
  const TraceSummary summary = scan_trace(options.trace, options.max_requests);
  return Replay(options, summary).run();
}

}  // namespace trencadis::app
