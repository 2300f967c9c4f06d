// The inner loops of CPU attention as a table of functions, one table for each instruction set that
// is compiled in. The main loop is ordinary C++ and is compiled once; all that depends on the width
// of a vector is behind this table, and a test can run every table that the machine supports.
//
// Rows that the kernels read are padded: a row of D elements counts dim = padded_dim(D) of them,
// and the elements beyond D are zeros in our own memory. Rows in the pool are read in place only
// where D needs no padding (KvSource), so nothing is ever read beyond a row of the caller.
#pragma once

#include <cstdint>

#include "contract/params.h"

namespace trencadis::cpu {

inline constexpr int kNumStorages = 3;  // contract::Storage

/// Short query tiles (decode) meet keys and values where they lie, one pointer a token.
///
/// "Load order" is the order in which lanes come out of a storage type: for bf16 a vector splits
/// into its even and its odd elements, which costs two instructions instead of four, so q is
/// permuted once to match and o is permuted back once.
struct ScoreTask {
  const float* q;  // [rows, dim] in load order, scaled
  std::int64_t q_stride;
  int rows;
  const void* const* keys;  // [key_count] rows of dim elements
  int key_count;
  int dim;   // padded
  float* s;  // [rows, key_count] logits
  std::int64_t s_stride;
  const void* const* prefetch;  // [prefetch_count] rows that are read next; one is touched a key
  int prefetch_count;
  int prefetch_bytes;  // of a row
};

struct AccumulateTask {
  const float* p;  // [rows, key_count] weights
  std::int64_t p_stride;
  int rows;
  const void* const* values;  // [key_count] rows of dim elements
  int key_count;
  int dim;               // padded
  const float* rescale;  // [rows]: o = o * rescale + p v
  float* o;              // [rows, dim] in load order
  std::int64_t o_stride;
  const void* const* prefetch;
  int prefetch_count;
  int prefetch_bytes;
};

/// c [rows, panels * panel_width] = a [rows, depth] * b + c * rescale, b in panels
/// [panels, depth, panel_width]. A null rescale means that c is overwritten.
struct GemmTask {
  const float* a;
  std::int64_t a_stride;
  int rows;
  int depth;
  const float* b;
  int panels;
  const float* rescale;  // [rows] or null
  float* c;
  std::int64_t c_stride;
};

/// One step of the online softmax over a tile of logits s [rows, cols].
struct SoftmaxTask {
  float* s;  // in: logits; out: weights exp(s - row_max), and 0 in columns [cols, padded_cols)
  std::int64_t s_stride;
  int rows;
  int cols;
  int padded_cols;  // a multiple of the lanes of a vector
  float* row_max;   // [rows] in and out; -inf where no key was visible yet
  float* row_sum;   // [rows] in and out; denominators relative to row_max
  float* rescale;   // [rows] out: exp(old row_max - new row_max), the factor due to o
};

struct Microkernels {
  const char* target;  // Highway's name: "AVX2", "AVX3", "NEON", ...
  int lanes;           // floats in a vector
  int panel_width;     // columns of a packed panel, a multiple of lanes
  /// Row lengths are padded to a multiple of this many elements; a multiple of panel_width.
  int dim_multiple;

  /// dst[0, n) = src[0, n) as float, any n and any alignment.
  void (*load_row[kNumStorages])(const void* src, int n, float* dst);
  /// Round to nearest even; a NaN stays one.
  void (*store_row[kNumStorages])(const float* src, int n, void* dst);
  /// Between natural and load order, n a multiple of dim_multiple; src and dst do not overlap.
  void (*to_load_order[kNumStorages])(const float* src, int n, float* dst);
  void (*from_load_order[kNumStorages])(const float* src, int n, float* dst);

  void (*score[kNumStorages])(const ScoreTask&);
  void (*accumulate[kNumStorages])(const AccumulateTask&);

  /// Transposes keys [count] of dim elements into panels [ceil(count / w), dim, w]; missing columns
  /// of the last panel are zeros.
  void (*pack_keys[kNumStorages])(const void* const* rows, int count, int dim, float* panels);
  /// Values [count] of dim elements into panels [dim / w, depth, w]; rows [count, depth) are zeros.
  void (*pack_values[kNumStorages])(const void* const* rows, int count, int depth, int dim,
                                    float* panels);
  void (*gemm)(const GemmTask&);

  void (*softmax)(const SoftmaxTask&);
  /// row[0, n) *= factor and row[0, n) /= divisor; n a multiple of lanes.
  void (*scale)(float* row, int n, float factor);
  void (*divide)(float* row, int n, float divisor);
  /// acc[0, n) += weight * x[0, n); n any.
  void (*add_scaled)(float* acc, const float* x, int n, float weight);
};

constexpr int round_up(int n, int multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

constexpr std::int64_t size_of(contract::Storage storage) {
  return storage == contract::Storage::f32 ? 4 : 2;
}

}  // namespace trencadis::cpu
