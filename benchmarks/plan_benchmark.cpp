// plan() on one core: an H200, 32 query heads on 8 KV heads unless a name says 16/16, pages of 16
// tokens, lengths of the Azure conversation trace of 2023. A run is one step; the steps of a case
// are all different and are taken in turn, so that no branch predictor learns one of them by heart.
// Validation is included.
//
//   plan_benchmark [--benchmark_filter=decode]
#include <benchmark/benchmark.h>
#include <shipped_data.h>
#include <trencadis/trencadis.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace trencadis;

constexpr int kSteps = 32;
constexpr std::int32_t kPageSize = 16;

struct TraceRequest {
  std::int32_t context = 0;
  std::int32_t generated = 0;
};

std::vector<TraceRequest> read_trace() {
  const std::string path = kShippedTrace;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);  // TIMESTAMP,ContextTokens,GeneratedTokens
  std::vector<TraceRequest> trace;
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string time, context, generated;
    std::getline(fields, time, ',');
    std::getline(fields, context, ',');
    std::getline(fields, generated, ',');
    trace.push_back({std::stoi(context), std::stoi(generated)});
  }
  if (trace.empty()) throw std::runtime_error("no requests in " + path);
  return trace;
}

/// Arrays of one step.
struct Step {
  std::vector<std::int32_t> qo_indptr{0}, kv_lens, kv_indptr{0}, kv_indices;

  void add(std::int32_t query, std::int32_t keys) {
    qo_indptr.push_back(qo_indptr.back() + query);
    kv_lens.push_back(keys);
    const std::int32_t pages = (keys + kPageSize - 1) / kPageSize;
    for (std::int32_t i = 0; i < pages; ++i) kv_indices.push_back(kv_indptr.back() + i);
    kv_indptr.push_back(kv_indptr.back() + pages);
  }
  PlanInput input() const {
    PlanInput input{.qo_indptr = qo_indptr, .kv_lens = kv_lens, .kv = {}, .kv_bounds = {}};
    input.kv.block_cols = kPageSize;
    input.kv.indptr = kv_indptr;
    input.kv.indices = kv_indices;
    input.kv.kv_lens = kv_lens;
    return input;
  }
};

void plan_steps(benchmark::State& state, const std::vector<Step>& steps, const PlanOptions& options,
                Heads heads = {32, 8}) {
  AttentionSpec spec;
  spec.variant.bounds = {.left = -1, .right = 0};  // causal
  Planner planner(spec, heads, known_device("h200"), options);
  std::vector<PlanInput> inputs;
  for (const Step& step : steps) inputs.push_back(step.input());
  Plan plan;
  std::size_t next = 0;
  for (auto _ : state) {
    planner.plan(inputs[next], plan);
    benchmark::DoNotOptimize(plan.bytes().data());
    next = next + 1 == inputs.size() ? 0 : next + 1;
  }
  const PlanStats stats = plan.stats();
  state.counters["row_blocks"] = static_cast<double>(stats.row_blocks);
  state.counters["plan_bytes"] = static_cast<double>(stats.plan_bytes);
  state.counters["balance"] = stats.balance;
}

/// Requests of the trace somewhere in their generation: one query token each.
std::vector<Step> decode_steps(std::int64_t batch) {
  const std::vector<TraceRequest> trace = read_trace();
  std::vector<Step> steps(kSteps);
  std::mt19937 random(1);
  for (Step& step : steps) {
    for (std::int64_t i = 0; i < batch; ++i) {
      const TraceRequest& request = trace[random() % trace.size()];
      const auto done = static_cast<std::int32_t>(random() % std::max(1, request.generated));
      step.add(1, request.context + done + 1);
    }
  }
  return steps;
}

/// Whole prompts of 1,024 to 4,096 tokens.
std::vector<Step> prompt_steps(std::int64_t batch) {
  std::vector<Step> steps(kSteps);
  std::mt19937 random(1);
  for (Step& step : steps) {
    for (std::int64_t i = 0; i < batch; ++i) {
      const auto tokens = static_cast<std::int32_t>(1024 + random() % 3073);
      step.add(tokens, tokens);
    }
  }
  return steps;
}

/// One long prompt.
std::vector<Step> long_prompt_steps(std::int64_t tokens) {
  std::vector<Step> steps(kSteps);
  for (std::int32_t i = 0; i < kSteps; ++i) {
    const auto length = static_cast<std::int32_t>(tokens - i * kPageSize);
    steps[static_cast<std::size_t>(i)].add(length, length);
  }
  return steps;
}

/// Chunked prefill: a token budget of 2,048 shared by a few prompts, the rest of the batch decodes.
std::vector<Step> mixed_steps(std::int64_t batch) {
  std::vector<Step> steps = decode_steps(batch - 4);
  std::mt19937 random(2);
  for (Step& step : steps) {
    for (int i = 0; i < 4; ++i) step.add(512, static_cast<std::int32_t>(512 * (1 + random() % 8)));
  }
  return steps;
}

void decode(benchmark::State& state) {
  plan_steps(state, decode_steps(state.range(0)), {});
}
void prompts(benchmark::State& state) {
  plan_steps(state, prompt_steps(state.range(0)), {});
}
void prompts_16_16(benchmark::State& state) {
  plan_steps(state, prompt_steps(state.range(0)), {}, {16, 16});
}
void prompts_l2_windows(benchmark::State& state) {
  plan_steps(state, prompt_steps(state.range(0)), {.scheduler = Scheduler::l2_windows});
}
void long_prompt(benchmark::State& state) {
  plan_steps(state, long_prompt_steps(state.range(0)), {});
}
void long_prompt_16_16(benchmark::State& state) {
  plan_steps(state, long_prompt_steps(state.range(0)), {}, {16, 16});
}
void mixed(benchmark::State& state) {
  plan_steps(state, mixed_steps(state.range(0)), {});
}
void decode_longest_first(benchmark::State& state) {
  plan_steps(state, decode_steps(state.range(0)), {.scheduler = Scheduler::longest_first});
}
void decode_batch_invariant(benchmark::State& state) {
  plan_steps(state, decode_steps(state.range(0)), {.batch_invariant = true});
}

void defaults(benchmark::internal::Benchmark* benchmark) {
  benchmark->Unit(benchmark::kMicrosecond)->Repetitions(9)->ReportAggregatesOnly()->MinTime(0.1);
}

BENCHMARK(decode)->Arg(16)->Arg(256)->Arg(1024)->Apply(defaults);
BENCHMARK(prompts)->Arg(16)->Arg(32)->Arg(256)->Apply(defaults);
BENCHMARK(prompts_16_16)->Arg(32)->Apply(defaults);
BENCHMARK(prompts_l2_windows)->Arg(32)->Apply(defaults);
BENCHMARK(long_prompt)->Arg(16384)->Apply(defaults);
BENCHMARK(long_prompt_16_16)->Arg(16384)->Apply(defaults);
BENCHMARK(mixed)->Arg(256)->Apply(defaults);
BENCHMARK(decode_longest_first)->Arg(256)->Arg(1024)->Apply(defaults);
BENCHMARK(decode_batch_invariant)->Arg(256)->Arg(1024)->Apply(defaults);

}  // namespace
