#include "replay_command.h"

#include <fmt/format.h>

#include <memory>
#include <optional>

#include "exit_status.h"
#include "options.h"
#include "output/atomic_file.h"
#include "output/failure.h"
#include "serving/replay.h"

namespace trencadis::app {
namespace {

struct Options {
  ReplayOptions replay;
  ModelOptions model;
  ScheduleOptions schedule;
  std::string backend = "auto";
  std::string dtype = "bfloat16";
  double step_ms = 50.0;
  std::string json, plan_svg;
};

void add_workload_options(CLI::App& command, Options& o) {
  command
      .add_option("trace,--trace", o.replay.trace,
                  "Azure CSV (TIMESTAMP, ContextTokens, GeneratedTokens) or Mooncake JSONL "
                  "(timestamp, input_length, output_length)")
      ->required()
      ->type_name("FILE");
  command.add_option("--requests", o.replay.max_requests, "stop after so many (default: all)")
      ->check(whole_number("--requests", 1, kMaxCount));
  o.model.add_to(command, /*with_layers=*/true);
  command.add_option("--dtype", o.dtype, "of q, k, v and the output: float32, float16, bfloat16")
      ->capture_default_str();
  command
      .add_option("--verify", o.replay.verify_steps,
                  "check so many steps against a float64 reference; 0: none")
      ->capture_default_str()
      ->check(whole_number("--verify", 0, kMaxCount));
}

void add_server_options(CLI::App& command, Options& o) {
  BatcherOptions& batching = o.replay.batching;
  command.add_option("--backend", o.backend, "cpu, cuda, reference, or auto: the fastest here")
      ->capture_default_str();
  command.add_option("--threads", o.replay.threads, "of the CPU backend (default: all)")
      ->check(whole_number("--threads", 1, kMaxThreads));
  command.add_option("--max-batch", batching.max_batch, "requests that are served at once")
      ->capture_default_str()
      ->check(whole_number("--max-batch", 1, kMaxBatch));
  command.add_option("--chunk", batching.chunk_tokens, "prompt tokens that a step computes")
      ->capture_default_str()
      ->check(whole_number("--chunk", 1, kMaxChunk));
  command.add_option("--page-size", batching.page_size, "tokens a KV page")
      ->capture_default_str()
      ->check(whole_number("--page-size", 1, kMaxPageSize));
  command
      .add_option("--pool-tokens", o.replay.pool_tokens,
                  "tokens that the KV pool of each layer holds (default: 131072, less where they "
                  "would take more than 4 GB; on a GPU what the batch can need, less where that "
                  "is more than 80 % of its memory)")
      ->check(whole_number("--pool-tokens", 1, kMaxPoolTokens));
  command
      .add_option("--workspace-bytes", o.replay.workspace_bytes,
                  "memory for plans and partial states (default: what the limits ask for)")
      ->check(whole_number("--workspace-bytes", 1, kMaxWorkspaceBytes));
  command
      .add_option("--step-time", o.step_ms,
                  "milliseconds that a step takes on the clock by which requests arrive, whatever "
                  "it takes here; 0: all are there from the start")
      ->capture_default_str()
      ->check(real_number("--step-time", 0, kMaxStepMs));
  command
      .add_option("--read-rate", o.replay.read_rate_tbps,
                  "TB/s that reads of KV are held against; 0: what is measured at the start, on a "
                  "GPU by a copy")
      ->capture_default_str()
      ->check(real_number("--read-rate", 0, kMaxReadTbps));
  o.schedule.add_to(command);
}

void run(Options& o) {
  o.replay.model = o.model.shape();
  o.replay.dtype = parse_storage_dtype(o.dtype);
  o.replay.backend = parse_backend(o.backend);
  o.replay.plan = o.schedule.plan_options();
  o.replay.batching.step_time_s = o.step_ms * 1e-3;
  require_two_files("--json", o.json, "--plan-svg", o.plan_svg);
  std::optional<AtomicFile> json, svg;
  if (!o.json.empty()) json.emplace(o.json);
  if (!o.plan_svg.empty()) svg.emplace(o.plan_svg);

  const ReplayReport report = replay(o.replay);

  fmt::print("{}", to_table(report));
  if (json) json->commit(to_json(report));
  if (svg) svg->commit(draw_svg(report.picture.value()));
  if (json) fmt::print("  {:<22} {}\n", "report", json->path());
  if (svg) fmt::print("  {:<22} {}\n", "picture of a plan", svg->path());
  if (report.verification && !report.verification->passed())
    throw WrongResult(fmt::format(
        "the results differ from the float64 reference by more than rounding explains: error "
        "{:.3g}, {:.3g} times what is allowed, LSE error {:.3g}; {}",
        report.verification->max_error, report.verification->max_allowed,
        report.verification->max_lse_error, report.verification->worst));
}

}  // namespace

void add_replay_command(CLI::App& app) {
  CLI::App& command = *app.add_subcommand(
      "replay",
      "Serve a trace with continuous batching: a paged KV pool, prompts in chunks mixed with "
      "decode steps, a plan each step and attention in every layer");
  const auto options = std::make_shared<Options>();
  options->replay.verify_steps = 8;
  add_workload_options(command, *options);
  add_server_options(command, *options);
  command.add_option("--json", options->json, "write the report here")->type_name("OUT");
  command
      .add_option("--plan-svg", options->plan_svg, "draw the plan of the step that shows most here")
      ->type_name("OUT");
  command.callback([options] { run(*options); });
}

}  // namespace trencadis::app
