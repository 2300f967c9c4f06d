// The private memory of one thread: every tile that the main loop works on, allocated once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "cpu/kv_source.h"
#include "cpu/microkernels.h"

namespace trencadis::cpu {

class Scratch {
 public:
  /// dim_qk, dim_vo: padded row lengths.
  Scratch(int dim_qk, int dim_vo) : memory_(allocate(size_in_floats(dim_qk, dim_vo))) {
    float* next = memory_.get();
    const auto take = [&next](std::int64_t floats) {
      float* taken = next;
      next += round_up_64(floats);
      return taken;
    };
    q = take(std::int64_t{kMaxTileRows} * dim_qk);
    o = take(std::int64_t{kMaxTileRows} * dim_vo);
    s = take(std::int64_t{kMaxTileRows} * kMaxTileKeys);
    keys = take(std::int64_t{kMaxTileKeys} * dim_qk);
    values = take(std::int64_t{kMaxTileKeys} * dim_vo);
    packed = take(panels_size(dim_qk > dim_vo ? dim_qk : dim_vo));
    row = take(dim_qk > dim_vo ? dim_qk : dim_vo);
  }

  float* q;       // [heads, rows, dim_qk], scaled; in load order where the tile is short
  float* o;       // [heads, rows, dim_vo], not normalised
  float* s;       // [heads, rows, kMaxTileKeys] logits, then weights
  float* keys;    // [tokens, dim_qk] staged as float, where hooks or odd dims ask for it
  float* values;  // [tokens, dim_vo]
  float* packed;  // panels of keys, then of values
  float* row;     // one row

  float row_max[kMaxTileRows];
  float row_sum[kMaxTileRows];
  float rescale[kMaxTileRows];
  int positions[kMaxTileKeys];
  KvTile tiles[2];                           // this one and the next
  const void* staged_rows[kMaxTileKeys];     // into keys or values
  const void* visible_values[kMaxTileKeys];  // those that a row sees

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(float* p) const { ::operator delete(p, kAlignment); }
  };

  static std::int64_t round_up_64(std::int64_t floats) { return (floats + 15) / 16 * 16; }
  /// Panels are at least a vector of four wide, and each has a line to spare.
  static std::int64_t panels_size(std::int64_t dim) {
    return kMaxTileKeys * dim + 16 * (dim > kMaxTileKeys ? dim : kMaxTileKeys);
  }
  static std::int64_t size_in_floats(int dim_qk, int dim_vo) {
    const std::int64_t widest = dim_qk > dim_vo ? dim_qk : dim_vo;
    return (kMaxTileRows + kMaxTileKeys) * (dim_qk + dim_vo) + kMaxTileRows * kMaxTileKeys +
           panels_size(widest) + widest + 8 * 16;
  }
  static std::unique_ptr<float, Free> allocate(std::int64_t floats) {
    const auto bytes = static_cast<std::size_t>(floats) * sizeof(float);
    return std::unique_ptr<float, Free>(static_cast<float*>(::operator new(bytes, kAlignment)));
  }

  std::unique_ptr<float, Free> memory_;
};

}  // namespace trencadis::cpu
