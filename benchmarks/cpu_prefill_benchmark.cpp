// Prefill on the CPU: one causal prompt, 32 query heads on 8 KV heads, head dim 128, pages of 16
// tokens. `nominal_share` is the share of the arithmetic that the backend assumes of the machine;
// compare_torch.py sets the time against another library's.
//
//   cpu_prefill_benchmark --benchmark_filter=float32/2048
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <trencadis/trencadis.h>

#include "paged_batch.h"

namespace {

using namespace trencadis;
using benchmarks::BatchShape;
using benchmarks::PagedBatch;

void prefill(benchmark::State& state, DType dtype, std::int32_t tokens) {
  BatchShape shape;
  shape.dtype = dtype;
  shape.causal = true;
  shape.qo_lens = shape.kv_lens = {tokens};
  PagedBatch batch(shape);
  batch.run();
  for (auto _ : state) batch.run();

  using benchmark::Counter;
  const double work = batch.flops() * static_cast<double>(state.iterations()) / 1e9;
  const double nominal = batch.attention().device_limits().matmul_tflops * 1e3;
  // Google Benchmark prints rates "per second"; the share is one of a nominal second.
  state.counters["GFLOP"] = Counter(work, Counter::kIsRate);
  state.counters["nominal_share"] = Counter(work / nominal, Counter::kIsRate);
}

const bool added = [] {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const std::int32_t tokens : {512, 2048})
      benchmark::RegisterBenchmark(fmt::format("prefill/{}/{}", to_string(dtype), tokens).c_str(),
                                   prefill, dtype, tokens)
          ->Unit(benchmark::kMillisecond)
          ->UseRealTime()
          ->MinTime(1.0);
  return true;
}();

}  // namespace
