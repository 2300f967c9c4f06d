// Decode on the CPU: a batch of 16 requests of 4,096 tokens, 32 query heads on 8 KV heads, head dim
// 128, pages of 16 tokens in random order. Bound by memory, so the figure is the share of the read
// bandwidth that the machine is measured to have, right before each case.
//
//   cpu_decode_benchmark --benchmark_filter=bfloat16
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <trencadis/trencadis.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "paged_batch.h"

namespace {

using namespace trencadis;
using benchmarks::BatchShape;
using benchmarks::PagedBatch;

void decode(benchmark::State& state, DType dtype, KvLayout layout, std::int32_t requests,
            std::int32_t tokens) {
  BatchShape shape;
  shape.dtype = dtype;
  shape.layout = layout;
  shape.qo_lens.assign(static_cast<std::size_t>(requests), 1);
  shape.kv_lens.assign(static_cast<std::size_t>(requests), tokens);
  PagedBatch batch(shape);
  const double bandwidth = measure_read_bandwidth();
  batch.run();
  double best = std::numeric_limits<double>::infinity();
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    batch.run();
    best = std::min(
        best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }

  // The best run against the best pass of the probe: neither is blamed for what else runs here.
  const double best_rate = static_cast<double>(batch.kv_bytes()) / best / 1e9;
  state.counters["best_ms"] = best * 1e3;
  state.counters["kv_GBps"] = best_rate;
  state.counters["probe_GBps"] = bandwidth;
  state.counters["read_share"] = best_rate / bandwidth;
}

void add(DType dtype, KvLayout layout, std::int32_t requests, std::int32_t tokens) {
  const std::string name = fmt::format("decode/{}/{}/{}x{}", to_string(dtype),
                                       layout == KvLayout::nhd ? "nhd" : "hnd", requests, tokens);
  benchmark::RegisterBenchmark(name.c_str(), decode, dtype, layout, requests, tokens)
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime()
      ->MinTime(1.0);
}

const bool added = [] {
  for (const KvLayout layout : {KvLayout::nhd, KvLayout::hnd})
    for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) add(dtype, layout, 16, 4096);
  add(DType::bf16, KvLayout::nhd, 1, 65536);
  add(DType::bf16, KvLayout::nhd, 256, 256);
  return true;
}();

}  // namespace
