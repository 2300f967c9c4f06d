// Attention::plan() and run() of the CUDA backend on the host, over a driver whose calls cost
// nothing (free_driver/): the library's own time, from the public call to the driver's. 32 query
// heads on 8 KV heads, head dim 128, pages of 16 tokens in random order, limits set, the steps of
// gpu/suites.py's host suite and one of unlike lengths. A kernel is compiled first, so that NVRTC
// or a bundle must be there; no GPU. With a device's own driver it times plan() alone:
//
//   cuda_host_benchmark
//   TRENCADIS_LIBCUDA=libcuda.so.1 cuda_host_benchmark --benchmark_filter=plan
#include <benchmark/benchmark.h>
#include <free_driver.h>
#include <trencadis/trencadis.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

namespace {

using namespace trencadis;

constexpr int kQoHeads = 32, kKvHeads = 8, kDim = 128, kPageSize = 16;

/// Arrays of one step.
struct Step {
  Step(std::int32_t query, const std::vector<std::int32_t>& lengths) : kv_lens(lengths) {
    for (const std::int32_t keys : lengths) {
      qo_indptr.push_back(qo_indptr.back() + query);
      kv_indptr.push_back(kv_indptr.back() + (keys + kPageSize - 1) / kPageSize);
    }
    kv_indices.resize(static_cast<std::size_t>(kv_indptr.back()));
    std::iota(kv_indices.begin(), kv_indices.end(), 0);
    std::shuffle(kv_indices.begin(), kv_indices.end(), std::mt19937(2));
  }

  std::vector<std::int32_t> qo_indptr{0}, kv_indptr{0}, kv_indices, kv_lens;
};

Step decode_step(int batch, std::int32_t keys) {
  return Step(1, std::vector<std::int32_t>(static_cast<std::size_t>(batch), keys));
}
Step unlike_step(int batch, std::int32_t most_keys) {
  std::mt19937 random(1);
  std::vector<std::int32_t> lengths(static_cast<std::size_t>(batch));
  for (std::int32_t& length : lengths)
    length = static_cast<std::int32_t>(1 + random() % static_cast<unsigned>(most_keys));
  return Step(1, lengths);
}
Step prefill_step(int batch, std::int32_t tokens) {
  return Step(tokens, std::vector<std::int32_t>(static_cast<std::size_t>(batch), tokens));
}

Attention make_attention(const Step& step) {
  AttentionSpec spec;
  spec.head_dim_qk = kDim;
  spec.variant = variants::softmax({.causal = true});
  AttentionConfig config{
      .heads = {kQoHeads, kKvHeads}, .page_size = kPageSize, .backend = BackendKind::cuda};
  config.limits = {.max_batch = static_cast<std::int64_t>(step.kv_lens.size()),
                   .max_qo_tokens = step.qo_indptr.back(),
                   .max_pages = step.kv_indptr.back(),
                   .max_kv_tokens = *std::max_element(step.kv_lens.begin(), step.kv_lens.end())};
  return Attention(spec, config);
}

void plan(benchmark::State& state, const Step& step) {
  try {
    Attention attention = make_attention(step);
    for (auto _ : state)
      attention.plan(step.qo_indptr, step.kv_indptr, step.kv_indices, step.kv_lens);
  } catch (const Error& error) {
    state.SkipWithError(error.what());
  }
}

void run(benchmark::State& state, const Step& step) {
  try {
    Attention attention = make_attention(step);
    attention.plan(step.qo_indptr, step.kv_indptr, step.kv_indices, step.kv_lens);
    // Nothing is read: the address need only be one.
    const auto tensor = [](std::initializer_list<std::int64_t> shape) {
      static char memory;
      return TensorView(&memory, DType::bf16, shape, {DeviceKind::cuda, 0});
    };
    const TensorView rows = tensor({step.qo_indptr.back(), kQoHeads, kDim});
    const TensorView pool = tensor({step.kv_indptr.back(), kPageSize, kKvHeads, kDim});
    const RunArgs args{.q = rows, .k = pool, .v = pool, .out = rows};
    for (auto _ : state) attention.run(args);
  } catch (const Error& error) {
    state.SkipWithError(error.what());
  }
}

void defaults(benchmark::internal::Benchmark* benchmark) {
  benchmark->Unit(benchmark::kNanosecond)->Repetitions(9)->ReportAggregatesOnly()->MinTime(0.1);
}

BENCHMARK_CAPTURE(plan, decode_64_x_1024, decode_step(64, 1024))->Apply(defaults);
BENCHMARK_CAPTURE(plan, decode_256_x_512, decode_step(256, 512))->Apply(defaults);
BENCHMARK_CAPTURE(plan, decode_64_unlike, unlike_step(64, 8192))->Apply(defaults);
BENCHMARK_CAPTURE(plan, prefill_4_x_512, prefill_step(4, 512))->Apply(defaults);
BENCHMARK_CAPTURE(run, decode_64_x_1024, decode_step(64, 1024))->Apply(defaults);

/// Before the library looks for a driver.
const int driver_chosen = setenv("TRENCADIS_LIBCUDA", kFreeDriver, 0);

}  // namespace
