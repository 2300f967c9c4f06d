// Two requests over three pages, all tensors float32, small enough to be wrong in one place at a
// time.
#pragma once

#include <trencadis/trencadis.h>

#include <cstdint>
#include <vector>

namespace trencadis::engine_test {

struct SmallProblem {
  static constexpr int kHeads = 2, kKvHeads = 1, kDim = 16, kPage = 4, kPages = 3;

  AttentionSpec spec;
  AttentionConfig config;
  std::vector<std::int32_t> qo_indptr{0, 1, 3};
  std::vector<std::int32_t> kv_indptr{0, 2, 3};
  std::vector<std::int32_t> kv_indices{2, 0, 1};
  std::vector<std::int32_t> kv_lens{6, 3};
  std::vector<float> q = filled(3 * kHeads * kDim, 3);
  std::vector<float> k = filled(kPages * kPage * kKvHeads * kDim, 5);
  std::vector<float> v = filled(kPages * kPage * kKvHeads * kDim, 7);
  std::vector<float> out = std::vector<float>(3 * kHeads * kDim, -7.0f);
  std::vector<float> lse = std::vector<float>(3 * kHeads, -7.0f);
  RunArgs args;

  SmallProblem() {
    spec.head_dim_qk = kDim;
    spec.dtype_q = spec.dtype_kv = spec.dtype_o = DType::f32;
    config.heads = {kHeads, kKvHeads};
    config.page_size = kPage;
    config.backend = BackendKind::cpu;
    config.num_threads = 1;
    args.q = TensorView(q.data(), DType::f32, {3, kHeads, kDim});
    args.k = TensorView(k.data(), DType::f32, {kPages, kPage, kKvHeads, kDim});
    args.v = TensorView(v.data(), DType::f32, {kPages, kPage, kKvHeads, kDim});
    args.out = TensorView(out.data(), DType::f32, {3, kHeads, kDim});
    args.lse = TensorView(lse.data(), DType::f32, {3, kHeads});
  }

  void plan(Attention& attention) const {
    attention.plan(qo_indptr, kv_indptr, kv_indices, kv_lens);
  }

  /// Deterministic values in [-1, 1) without a pattern that an index error could hide in.
  static std::vector<float> filled(std::size_t n, std::uint32_t seed) {
    std::vector<float> values(n);
    for (float& value : values) {
      seed = seed * 1664525u + 1013904223u;
      value = static_cast<float>(seed >> 8) / static_cast<float>(1u << 23) - 1.0f;
    }
    return values;
  }
};

/// The kind and text of the error that `call` throws; fails the test where it throws none.
template <class Call>
Error error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorKind::internal, "nothing was thrown");
}

}  // namespace trencadis::engine_test
