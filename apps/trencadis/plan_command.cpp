#include "plan_command.h"

#include <fmt/format.h>
#include <trencadis/device_limits.h>
#include <trencadis/plan.h>
#include <trencadis/runtime.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "options.h"
#include "output/atomic_file.h"
#include "output/failure.h"
#include "picture/plan_picture.h"
#include "serving/batcher.h"
#include "trace/trace_reader.h"

namespace trencadis::app {
namespace {

struct Options {
  std::vector<std::string> lengths;
  std::string trace;
  std::int64_t batch = 32;
  std::int64_t chunk = 512;
  std::int64_t page_size = 16;
  std::string device = "cpu";
  std::string dtype = "bfloat16";
  bool causal = true;
  std::int64_t window = 0;
  ModelOptions model;
  ScheduleOptions schedule;
  std::string svg, json;
};

DeviceLimits find_device(const std::string& name) {
  if (name != "cpu") return known_device(name);
  for (const BackendInfo& backend : backends())
    if (backend.kind == BackendKind::cpu && !backend.devices.empty()) return backend.devices[0];
  fail(ErrorKind::not_supported,
       "--device cpu: the CPU backend is not available here; name a "
       "device such as h200");
}

/// Requests of the given lengths, with pages in order.
Step step_of(const std::vector<RequestLengths>& lengths, std::int64_t page_size) {
  Step step;
  step.qo_indptr.push_back(0);
  step.kv_indptr.push_back(0);
  std::int64_t tokens = 0, pages = 0;
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    tokens += lengths[b].query;
    pages += (lengths[b].kv + page_size - 1) / page_size;
    if (tokens > INT32_MAX || pages > INT32_MAX)
      fail(ErrorKind::invalid_argument,
           "--lengths: the batch has more than {} query tokens or pages", INT32_MAX);
    step.lines.push_back(static_cast<std::int64_t>(b));
    step.qo_indptr.push_back(static_cast<std::int32_t>(tokens));
    step.kv_indptr.push_back(static_cast<std::int32_t>(pages));
    step.kv_lens.push_back(static_cast<std::int32_t>(lengths[b].kv));
  }
  step.kv_indices.resize(static_cast<std::size_t>(pages));
  std::iota(step.kv_indices.begin(), step.kv_indices.end(), 0);
  return step;
}

/// The first step of continuous batching that computes `batch` requests at once, where all wait at
/// the start: most decode, and a prompt or two are under way.
Step step_of_trace(const Options& o) {
  // Requests that are done make room for others, so more than the batch are served until then.
  const std::int64_t served = 16 * o.batch;
  BatcherOptions batching;
  batching.max_batch = o.batch;
  batching.chunk_tokens = o.chunk;
  batching.page_size = o.page_size;
  const TraceSummary summary = scan_trace(o.trace, served);
  batching.num_pages =
      Batcher::pages_needed(summary.longest, o.page_size) * std::min(o.batch, summary.requests);
  batching.step_time_s = 0.0;
  const auto reader = open_trace(o.trace);
  Batcher batcher(batching, o.trace, [&, left = served]() mutable {
    return left-- > 0 ? reader->next() : std::nullopt;
  });
  std::int64_t fullest = 0;
  for (Step step; batcher.next(step); fullest = std::max(fullest, step.batch()))
    if (step.batch() == o.batch) return step;
  fail(ErrorKind::invalid_argument,
       "{}: no step has {} requests, at most {} with prompt chunks of {} tokens; raise --chunk or "
       "lower --batch",
       o.trace, o.batch, fullest, o.chunk);
}

AttentionSpec spec_of(const Options& o, const ModelShape& shape) {
  variants::SoftmaxOptions softmax;
  softmax.causal = o.causal;
  softmax.soft_cap = shape.soft_cap;
  if (o.window > 0) softmax.window_left = o.window - 1;
  AttentionSpec spec;
  spec.head_dim_qk = shape.head_dim;
  spec.dtype_q = spec.dtype_kv = spec.dtype_o = parse_storage_dtype(o.dtype);
  spec.variant = variants::softmax(softmax);
  return spec;
}

Plan plan_step(const Options& o, const ModelShape& shape, const DeviceLimits& device,
               const Step& step) {
  PlanInput input;
  input.qo_indptr = step.qo_indptr;
  input.kv_lens = step.kv_lens;
  input.kv.block_cols = o.page_size;
  input.kv.indptr = step.kv_indptr;
  input.kv.indices = step.kv_indices;
  input.kv.kv_lens = step.kv_lens;
  return make_plan(spec_of(o, shape), {shape.num_qo_heads, shape.num_kv_heads}, device, input,
                   o.schedule.plan_options());
}

std::vector<std::string> labels_of(const Step& step, bool from_trace) {
  std::vector<std::string> labels;
  for (std::int64_t b = 0; b < step.batch(); ++b)
    labels.push_back(fmt::format("{} {}: q {}, kv {}", from_trace ? "line" : "request",
                                 step.lines[static_cast<std::size_t>(b)], step.query_len(b),
                                 step.kv_lens[static_cast<std::size_t>(b)]));
  return labels;
}

std::string to_json(const PlanPicture& picture) {
  using nlohmann::ordered_json;
  const PlanStats& s = picture.stats;
  ordered_json plan{{"device", picture.device},
                    {"requests", s.requests},
                    {"row_blocks", s.row_blocks},
                    {"items", s.items},
                    {"queues", s.queues},
                    {"partial_slots", s.partial_slots},
                    {"longest_queue_us", s.longest_queue_us},
                    {"mean_queue_us", s.mean_queue_us},
                    {"balance", s.balance},
                    {"split_share", s.split_share},
                    {"kv_tokens_read", s.kv_tokens_read},
                    {"plan_bytes", s.plan_bytes},
                    {"workspace_bytes", s.workspace_bytes},
                    {"spans", ordered_json::array()},
                    {"merges", ordered_json::array()}};
  for (const PlanSpan& span : picture.spans)
    plan["spans"].push_back({{"queue", span.queue},
                             {"request", span.request},
                             {"kv_head", span.kv_head},
                             {"rows", {span.row_begin, span.row_end}},
                             {"kv", {span.kv_begin, span.kv_end}},
                             {"partial_slot", span.partial_slot},
                             {"us", {span.begin_us, span.end_us}}});
  for (const PlanMerge& merge : picture.merges)
    plan["merges"].push_back({{"request", merge.request},
                              {"kv_head", merge.kv_head},
                              {"rows", {merge.row_begin, merge.row_end}},
                              {"first_slot", merge.first_slot},
                              {"num_slots", merge.num_slots}});
  return plan.dump(1) + "\n";
}

void run(const Options& o) {
  if (o.lengths.empty() == o.trace.empty())
    fail(ErrorKind::invalid_argument,
         "plan needs either --lengths, as in 1:4096,512:512x8, or --trace FILE");
  const ModelShape shape = o.model.shape();
  const DeviceLimits device = find_device(o.device);
  require_two_files("--json", o.json, "--svg", o.svg);
  std::optional<AtomicFile> json, svg;
  if (!o.json.empty()) json.emplace(o.json);
  if (!o.svg.empty()) svg.emplace(o.svg);

  const bool from_trace = !o.trace.empty();
  const Step step = from_trace ? step_of_trace(o) : step_of(parse_lengths(o.lengths), o.page_size);
  const Plan plan = plan_step(o, shape, device, step);
  const PlanPicture picture =
      picture_of(plan, fmt::format("Plan of {} requests, {}", step.batch(), describe(shape)),
                 device.name, labels_of(step, from_trace));

  fmt::print("{}\n{}", plan.explain(), draw_text(picture));
  if (json) json->commit(to_json(picture));
  if (svg) svg->commit(draw_svg(picture));
}

}  // namespace

void add_plan_command(CLI::App& app) {
  CLI::App& command = *app.add_subcommand(
      "plan", "Plan one step, explain the plan and draw it; for any device, none is needed");
  const auto o = std::make_shared<Options>();
  command
      .add_option("--lengths", o->lengths,
                  "requests as query:kv tokens, repeated by x: 1:4096,512:512x8")
      ->type_name("Q:KV[xN] ...");
  command
      .add_option("--trace", o->trace,
                  "plan the step at which --batch requests of a trace are served at once")
      ->type_name("FILE");
  command.add_option("--batch", o->batch, "with --trace: requests in the step")
      ->capture_default_str()
      ->check(whole_number("--batch", 1, kMaxPlanBatch));
  command.add_option("--chunk", o->chunk, "with --trace: prompt tokens that a step computes")
      ->capture_default_str()
      ->check(whole_number("--chunk", 1, kMaxChunk));
  std::string devices = "cpu (this machine)";
  for (const DeviceLimits& known : known_devices()) devices += ", " + known.name;
  command.add_option("--device", o->device, "whose limits to plan for: " + devices)
      ->capture_default_str();
  o->model.add_to(command, /*with_layers=*/false);
  command.add_option("--dtype", o->dtype, "of q, k and v: float32, float16 or bfloat16")
      ->capture_default_str();
  command.add_option("--page-size", o->page_size, "tokens a KV page")
      ->capture_default_str()
      ->check(whole_number("--page-size", 1, kMaxPageSize));
  command.add_flag("--causal,!--no-causal", o->causal, "mask by position (the default)");
  command
      .add_option("--window", o->window, "tokens that a row sees, itself included (default: all)")
      ->check(whole_number("--window", 1, kMaxWindow));
  o->schedule.add_to(command);
  command.add_option("--svg", o->svg, "draw the plan here")->type_name("OUT");
  command.add_option("--json", o->json, "write the plan here")->type_name("OUT");
  command.callback([o] { run(*o); });
}

}  // namespace trencadis::app
