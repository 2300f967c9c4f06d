#include "serving/replay.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>

#include "output/failure.h"
#include "output/progress.h"
#include "serving/layers.h"

namespace trencadis::app {
namespace {

using Clock = std::chrono::steady_clock;

// Enough for the default batch of requests as long as those of the public traces of conversations.
constexpr std::int64_t kDefaultPoolTokens = 131'072;
// A pool that nobody asked for leaves most of the memory to others.
constexpr double kDefaultPoolBytes = 4e9;
// A GPU has few users; what is left is for workspaces, outputs and the bandwidth probe.
constexpr double kDefaultGpuShare = 0.8;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

std::int64_t longest_tokens(const TraceSummary& summary) {
  return summary.longest.input_tokens + summary.longest.output_tokens;
}

/// What BackendKind::automatic stands for here.
BackendKind backend_of(const ReplayOptions& options) {
  if (options.backend != BackendKind::automatic) return options.backend;
  AttentionConfig config;
  config.page_size = options.batching.page_size;
  config.num_threads = options.threads;
  config.plan = options.plan;
  ModelAttention engine(options.model, options.dtype, options.dtype, config);
  return engine.kind(0).backend();
}

std::int64_t default_pool_tokens(const ReplayOptions& options, BackendKind backend,
                                 std::int64_t bytes_per_token, std::int64_t longest) {
  const bool on_gpu = backend == BackendKind::cuda;
  const double bytes =
      on_gpu ? kDefaultGpuShare * static_cast<double>(gpu_memory_bytes(0)) : kDefaultPoolBytes;
  const auto affordable = static_cast<std::int64_t>(bytes / static_cast<double>(bytes_per_token));
  // More than a GPU's batch can use is of no use.
  const std::int64_t useful = on_gpu ? options.batching.max_batch * longest : kDefaultPoolTokens;
  return std::max(std::min(useful, affordable), longest);
}

PoolShape pool_shape(const ReplayOptions& options, const TraceSummary& summary,
                     BackendKind backend) {
  PoolShape shape{options.model.num_layers,   0,
                  options.batching.page_size, options.model.num_kv_heads,
                  options.model.head_dim,     options.dtype};
  std::int64_t tokens = options.pool_tokens;
  if (tokens == 0)
    tokens =
        default_pool_tokens(options, backend, shape.bytes_per_token(), longest_tokens(summary));
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
        backend_(backend_of(options)),
        pool_shape_(pool_shape(options, summary, backend_)),
        batcher_(batching(), options.trace, source_of(options.trace, options.max_requests)),
        layers_(make_layers(
            {options.model, options.dtype, config(), options.workspace_bytes, pool_shape_})),
        sampler_(options.verify_steps, total_tokens()) {
    if (options.verify_steps > 0)
      verifier_.emplace(options.model, options.dtype, config(), config().limits.max_qo_tokens);
  }

  ReplayReport run() {
    describe_run();
    report_.machine_read_gbps = options_.read_rate_tbps > 0.0 ? options_.read_rate_tbps * 1e3
                                                              : layers_->measure_read_rate();
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
    config.backend = backend_;
    config.num_threads = options_.threads;
    config.limits = {options_.batching.max_batch,
                     options_.batching.max_batch + options_.batching.chunk_tokens,
                     pool_shape_.pages, longest_tokens(summary_)};
    config.plan = options_.plan;
    return config;
  }

  void describe_run() {
    report_.trace = std::filesystem::path(options_.trace).filename().string();
    report_.backend = to_string(backend_);
    report_.device = layers_->engine().kind(0).device_limits().name;
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
    if (backend_ != BackendKind::cuda) return;
    report_.gpu.emplace();
    report_.gpu->pool_bytes = layers_->pool_bytes();
    report_.gpu->read_rate_given = options_.read_rate_tbps > 0.0;
  }

  void plan(const Step& step) {
    ModelAttention& engine = layers_->engine();
    for (std::size_t kind = 0; kind < engine.num_kinds(); ++kind) {
      const auto start = Clock::now();
      layers_->plan(kind, step);
      report_.plan_us.add(microseconds_since(start));
    }
    const Plan& plan = engine.kind(0).current_plan();
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
    const StepTimes times = layers_->serve(step, sampled ? &*verifier_ : nullptr);
    ++report_.steps;
    report_.append_s += times.append_us * 1e-6;
    report_.verify_s += times.verify_us * 1e-6;
    report_.attention_us.add(times.attention_us);
    (step.is_decode() ? report_.decode_us : report_.mixed_us).add(times.attention_us);
    if (step.is_decode()) account_for_reads(step, times);
  }

  void account_for_reads(const Step& step, const StepTimes& times) {
    const double bytes = layers_->engine().visible_kv_bytes(step);
    ++report_.decode_steps;
    report_.decode_kv_bytes += bytes;
    if (!report_.gpu) return;
    const double floor_us = bytes / (report_.machine_read_gbps * 1e3);
    report_.gpu->decode_batch.add(static_cast<double>(step.batch()));
    report_.gpu->floor_us.add(floor_us);
    report_.gpu->floor_share.add(floor_us / times.attention_us);
  }

  const ReplayOptions& options_;
  const TraceSummary& summary_;
  BackendKind backend_;
  PoolShape pool_shape_;
  Batcher batcher_;
  std::unique_ptr<Layers> layers_;
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
