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

/// Rows of the pool that a short query tile (decode) meets where they lie: token i of head h is at
/// tokens[i] + h * head_bytes. Several KV heads of a token are read together, because in the usual
/// layout they lie side by side, and memory read in order is twice as fast.
struct PoolRows {
  const void* const* tokens;  // [count] rows of the first head
  int count;
  int heads;
  std::int64_t head_bytes;
  bool heads_adjacent;  // heads of a token are nearer than tokens of a head (NHD)
  int row_bytes;
  const void* const* next;  // [next_count] tokens that are read after these: to be prefetched
  int next_count;
};

/// "Load order" is the order in which lanes come out of a storage type: for bf16 a vector splits
/// into its even and its odd elements, which costs two instructions instead of four, so q is
/// permuted once to match and o is permuted back once.
struct ScoreTask {
  const float* q;  // [heads, rows, dim] in load order, scaled
  std::int64_t q_stride;
  int rows;  // of each head
  int dim;   // padded
  float* s;  // [heads, rows, keys.count] logits
  std::int64_t s_stride;
  PoolRows keys;
};

/// o = o * rescale + p v. With values.count = 0 nothing is done.
struct AccumulateTask {
  const float* p;  // [heads, rows, values.count] weights
  std::int64_t p_stride;
  int rows;              // of each head
  int dim;               // padded
  const float* rescale;  // [heads, rows]
  float* o;              // [heads, rows, dim] in load order
  std::int64_t o_stride;
  PoolRows values;
};

/// Floats from one packed panel to the next: a cache line more than its [depth, width], so that the
/// panels of a tile, whose size is a power of two, do not all fall on the same sets of the cache.
constexpr std::int64_t panel_stride(int depth, int width) {
  return std::int64_t{depth} * width + 16;
}

/// c [rows, panels * panel_width] = a [rows, depth] * b + c * rescale, b in panels
/// [panels, depth, panel_width] of panel_stride. A null rescale means that c is overwritten.
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

/// Rows that will be packed next: to be prefetched.
struct NextRows {
  const void* const* rows;  // [count]
  int count;
  int row_bytes;
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
  void (*pack_keys[kNumStorages])(const void* const* rows, int count, int dim, float* panels,
                                  const NextRows& next);
  /// Values [count] of dim elements into panels [dim / w, count, w].
  void (*pack_values[kNumStorages])(const void* const* rows, int count, int dim, float* panels,
                                    const NextRows& next);
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
