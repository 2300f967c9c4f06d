// Which scheduler for which regime? Predicted makespan, splits and planning time of both, over the
// regimes of a serving engine. Prints the table of README.md.
//
//   c++ -std=c++20 -O3 -I../../include schedulers.cpp -L../../build/src -ltrencadis -lfmt
#include <fmt/format.h>
#include <trencadis/trencadis.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace {

using namespace trencadis;

struct Batch {
  std::vector<std::int32_t> qo_indptr{0}, kv_lens, kv_indptr{0};

  void add(std::int32_t query, std::int32_t keys) {
    qo_indptr.push_back(qo_indptr.back() + query);
    kv_lens.push_back(keys);
    kv_indptr.push_back(kv_indptr.back() + (keys + 15) / 16);
  }
  PlanInput input() const {
    PlanInput input{.qo_indptr = qo_indptr, .kv_lens = kv_lens, .kv = {}, .kv_bounds = {}};
    input.kv.block_cols = 16;
    input.kv.indptr = kv_indptr;
    input.kv.kv_lens = kv_lens;
    return input;
  }
};

struct Regime {
  std::string name;
  Batch batch;
};

std::vector<std::int32_t> trace_lengths() {
  std::ifstream file("../../data/azure_conv_2023.csv");
  std::string line, time, context, generated;
  std::vector<std::int32_t> lengths;
  for (std::getline(file, line); std::getline(file, line);) {
    std::istringstream fields(line);
    std::getline(fields, time, ',');
    std::getline(fields, context, ',');
    std::getline(fields, generated, ',');
    lengths.push_back(std::stoi(context) + std::stoi(generated) / 2 + 1);
  }
  return lengths;
}

std::vector<Regime> regimes() {
  std::mt19937 random(1);
  const std::vector<std::int32_t> trace = trace_lengths();
  std::vector<Regime> all;
  const auto add = [&all](std::string name) -> Batch& {
    all.push_back({std::move(name), {}});
    return all.back().batch;
  };
  for (const std::int32_t keys : {1024, 8192, 131072}) {
    add(fmt::format("1 x {} decode", keys)).add(1, keys);
  }
  for (const int count : {16, 256, 1024}) {
    Batch& batch = add(fmt::format("{} trace decode", count));
    for (int i = 0; i < count; ++i) batch.add(1, trace[random() % trace.size()]);
  }
  Batch& zipf = add("16 Zipf decode");
  for (int i = 1; i <= 16; ++i) zipf.add(1, 16384 / i);
  Batch& equal = add("256 x 2,048 decode");
  for (int i = 0; i < 256; ++i) equal.add(1, 2048);
  Batch& one_prompt = add("1 x 4,096 prompt");
  one_prompt.add(4096, 4096);
  Batch& prompts = add("32 prompts of 1,024-4,096");
  for (int i = 0; i < 32; ++i) {
    const auto tokens = static_cast<std::int32_t>(1024 + random() % 3073);
    prompts.add(tokens, tokens);
  }
  Batch& mixed = add("124 trace decode + 4 chunks of 512");
  for (int i = 0; i < 124; ++i) mixed.add(1, trace[random() % trace.size()]);
  for (int i = 1; i <= 4; ++i) mixed.add(512, 2048 * i);
  return all;
}

struct Result {
  PlanStats stats;
  double plan_us;
};

Result measure(const DeviceLimits& device, const Batch& batch, const PlanOptions& options) {
  AttentionSpec spec;
  spec.variant.bounds.right = 0;
  Planner planner(spec, Heads{32, 8}, device, options);
  Plan plan;
  const PlanInput input = batch.input();
  std::vector<double> times;
  for (int i = 0; i < 101; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    planner.plan(input, plan);
    const auto end = std::chrono::steady_clock::now();
    times.push_back(std::chrono::duration<double, std::micro>(end - begin).count());
  }
  std::nth_element(times.begin(), times.begin() + 50, times.end());
  return {plan.stats(), times[50]};
}

}  // namespace

int main() {
  for (const char* name : {"h200", "laptop4"}) {
    const DeviceLimits& device = known_device(name);
    for (const SplitMode split : {SplitMode::automatic, SplitMode::none}) {
      fmt::print("\n{}, {}: even cut | longest first\n", name,
                 split == SplitMode::none ? "no split" : "automatic split");
      fmt::print(
          "| regime | pairs a queue | over bound | slots | plan us | over bound | slots | plan us "
          "|\n");
      for (const Regime& regime : regimes()) {
        // Work that no schedule avoids, on all queues.
        const PlanStats whole = measure(device, regime.batch, {.split = SplitMode::none}).stats;
        const double bound = whole.mean_queue_us;
        fmt::print("| {} | {:.1f} |", regime.name, 8.0 * whole.row_blocks / device.num_ctas);
        for (const Scheduler scheduler : {Scheduler::even_cut, Scheduler::longest_first}) {
          const Result r = measure(device, regime.batch, {.split = split, .scheduler = scheduler});
          fmt::print(" {:.3f} | {} | {:.1f} |", r.stats.longest_queue_us / bound,
                     r.stats.partial_slots, r.plan_us);
        }
        fmt::print("\n");
      }
    }
  }
}
