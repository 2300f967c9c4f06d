// Decode on the CPU: a batch of 16 requests of 4,096 tokens, 32 query heads on 8 KV heads, head dim
// 128, pages of 16 tokens in random order. Bound by memory, so the figure is the share of the read
// bandwidth that the machine is measured to have, right before each case.
//
//   cpu_decode_benchmark --benchmark_filter=bfloat16
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <trencadis/trencadis.h>

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
  for (auto _ : state) batch.run();

  using benchmark::Counter;
  const double bytes = static_cast<double>(batch.kv_bytes());
  const auto iterations = static_cast<double>(state.iterations());
  state.counters["kv_GBps"] = Counter(bytes * iterations / 1e9, Counter::kIsRate);
  state.counters["probe_GBps"] = bandwidth;
  state.counters["read_share"] = Counter(bytes * iterations / 1e9 / bandwidth, Counter::kIsRate);
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
