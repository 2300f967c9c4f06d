// Arguments of an attention kernel: pointers, 64-bit strides in elements, and scalars. Nothing here
// depends on the lengths of a step but the arrays that the pointers lead to.
#pragma once

#include <cstdint>

#include "contract/divisor.h"

namespace trencadis::contract {

enum class Storage : std::int32_t { f32, f16, bf16 };

/// Kernels that count distances between rows in 32 bits count in the largest power of two that
/// divides both strides, in elements, up to this.
inline constexpr std::int64_t kLargestRowUnit = std::int64_t{1} << 20;

/// One BSR view as kernels read it. The rules of include/trencadis/block_sparse.h.
struct BsrParams {
  const std::int32_t* indptr;     // [rows + 1] blocks
  const std::int32_t* indices;    // [nnz]; null: contiguous, block indptr[r] + j
  const std::int32_t* positions;  // [nnz] logical block column; null: j
  const std::int32_t* kv_lens;    // [rows] storage tokens
  std::int64_t block_cols;        // P
  std::int64_t blocks;            // ids are below it; for the host alone
  std::int32_t rows;
  Divisor page;  // by block_cols
};

/// Logical mask bounds: p - left <= j <= p + right; -1 is unbounded.
struct BoundsParams {
  std::int64_t left;
  std::int64_t right;
};

inline constexpr int kMaxExtraTensors = 12;
inline constexpr int kMaxExtraScalars = 16;

/// The variant's tensors and scalars in declared order; codegen gives them names and types.
struct VariantArgs {
  const void* tensors[kMaxExtraTensors];
  double scalars[kMaxExtraScalars];
};

struct AttentionParams {
  const void* q;  // [nnz_q, H_q, D_qk]
  std::int64_t q_stride_token, q_stride_head;
  const void* k;  // pool
  std::int64_t k_stride_page, k_stride_token, k_stride_head;
  const void* v;
  std::int64_t v_stride_page, v_stride_token, v_stride_head;
  void* o;  // [nnz_q, H_q, D_vo]
  std::int64_t o_stride_token, o_stride_head;
  float* lse;  // [nnz_q, H_q]; null: not wanted
  std::int64_t lse_stride_token, lse_stride_head;

  Storage q_type, kv_type, o_type;
  std::int32_t num_qo_heads, num_kv_heads;
  std::int32_t head_dim_qk, head_dim_vo;
  std::int32_t batch;
  std::int32_t use_softmax;   // 0: weights are the logits, states add
  std::int32_t lse_base_two;  // 1: LSE in base 2

  const std::int32_t* qo_indptr;  // [B + 1]
  const std::int32_t* kv_lens;    // [B] logical lengths
  BsrParams kv;
  BoundsParams bounds;
  float sm_scale;
  const float* sinks;  // [H_q] or null
  VariantArgs variant;

  /// Partial states: slot s, row r (of slot_rows), o at partial_o[(s * slot_rows + r) * D_vo],
  /// natural-log LSE at partial_lse[s * slot_rows + r]. o is normalised (softmax) or a plain sum.
  float* partial_o;
  float* partial_lse;
};

}  // namespace trencadis::contract
