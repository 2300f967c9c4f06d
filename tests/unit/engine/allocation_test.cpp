// A serving loop calls plan() each step and run() each layer: once warm, neither allocates. In a
// binary of its own, since it replaces operator new.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "unit/engine/small_problem.h"

namespace {
std::atomic<std::int64_t> allocations{0};

void* allocate(std::size_t bytes, std::size_t alignment) {
  ++allocations;
  void* memory = nullptr;
  if (posix_memalign(&memory, std::max(alignment, sizeof(void*)), bytes) != 0)
    throw std::bad_alloc();
  return memory;
}
}  // namespace

void* operator new(std::size_t bytes) {
  return allocate(bytes, alignof(std::max_align_t));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace trencadis::engine_test {
namespace {

/// Allocations of the third of three equal calls.
template <class Call>
std::int64_t allocations_once_warm(Call&& call) {
  call();
  call();
  const std::int64_t before = allocations;
  call();
  return allocations - before;
}

TEST(Allocation, AreCounted) {
  EXPECT_GT(allocations_once_warm([] { SmallProblem{}; }), 0);
}

TEST(Allocation, NoneOnceWarm) {
  for (const int threads : {1, 3}) {
    SmallProblem p;
    p.config.num_threads = threads;
    Attention attention(p.spec, p.config);
    EXPECT_EQ(allocations_once_warm([&] { p.plan(attention); }), 0);
    EXPECT_EQ(allocations_once_warm([&] { attention.run(p.args); }), 0);
  }
}

TEST(Allocation, NoneWithTensorsScalarsAndLimits) {
  SmallProblem p;
  p.spec.variant = variants::softmax({.causal = true,
                                      .window_left = 5,
                                      .soft_cap = 30.0,
                                      .alibi = true,
                                      .custom_mask = true,
                                      .sinks = true,
                                      .rope = variants::Rope{}});
  p.config.limits = {.max_batch = 4, .max_qo_tokens = 16, .max_pages = 8, .max_kv_tokens = 64};
  std::vector<float> frequencies = variants::rope_inv_freq({}, SmallProblem::kDim);
  std::vector<float> slopes{0.5f, 0.25f}, sinks{0.0f, 1.0f};
  std::vector<std::uint8_t> mask(3, 0xff);
  std::vector<std::int64_t> mask_indptr{0, 1};
  std::vector<TensorView> tensors{
      TensorView(frequencies.data(), DType::f32, {SmallProblem::kDim / 2}),
      TensorView(slopes.data(), DType::f32, {2}), TensorView(mask.data(), DType::u8, {3}),
      TensorView(mask_indptr.data(), DType::i64, {2})};
  p.args.tensors = tensors;
  p.args.sinks = TensorView(sinks.data(), DType::f32, {2});
  Attention attention(p.spec, p.config);
  const std::vector<std::int64_t> wide_lens(p.kv_lens.begin(), p.kv_lens.end());
  EXPECT_EQ(allocations_once_warm(
                [&] { attention.plan(p.qo_indptr, p.kv_indptr, p.kv_indices, wide_lens); }),
            0);
  EXPECT_EQ(allocations_once_warm([&] { attention.run(p.args); }), 0);
}

}  // namespace
}  // namespace trencadis::engine_test
