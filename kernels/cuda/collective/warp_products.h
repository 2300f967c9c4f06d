// The two products of a tile by the tensor cores of one warp, mma.sync over shared tiles. Operands
// are loaded one pair of tiles ahead of the products that take them.
#pragma once

#include "cuda/ptx/convert.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/mma.h"
#include "cuda/tile/fragments.h"

namespace trencadis::collective {

/// Of the products of one step: of the warp's row tiles, and of two column tiles.
template <int kRowTiles>
struct RowOperand {
  unsigned tile[kRowTiles][4];
};
struct ColumnOperand {
  unsigned r[4];
};

template <int kRowTiles, int kTiles>
TRENCADIS_DEVICE void clear_sums(float (&sums)[kRowTiles][kTiles][4]) {
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i)
#pragma unroll
    for (int j = 0; j < kTiles; ++j)
#pragma unroll
      for (int c = 0; c < 4; ++c) sums[i][j][c] = 0.0f;
}

/// s = q k^T over kSteps * 16 columns. The walks are tile::walk_rows and tile::walk_keys, where the
/// warp's rows and keys begin.
template <class Tag, class Queries, class Keys, int kSteps, int kRowTiles, int kKeyTiles>
TRENCADIS_DEVICE void multiply_keys(ptx::SharedAddress query_walk, ptx::SharedAddress key_walk,
                                    float (&s)[kRowTiles][kKeyTiles][4]) {
  constexpr int kPairs = kKeyTiles / 2;
  RowOperand<kRowTiles> rows, next_rows;
  ColumnOperand pair, next_pair;
  const auto load_rows = [&](int step) {
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i)
      tile::load_rows<Queries>(next_rows.tile[i], query_walk, 16 * i, step);
  };
  const auto load_keys = [&](int p, int step) {
    tile::load_keys<Keys>(next_pair.r, key_walk, 16 * p, step);
  };
  clear_sums(s);
  load_rows(0);
  load_keys(0, 0);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    rows = next_rows;
#pragma unroll
    for (int p = 0; p < kPairs; ++p) {
      pair = next_pair;
      if (p + 1 < kPairs) {
        load_keys(p + 1, step);
      } else if (step + 1 < kSteps) {
        load_rows(step + 1);
        load_keys(0, step + 1);
      }
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
        ptx::mma_16x8x16<Tag>(s[i][2 * p], rows.tile[i], pair.r[0], pair.r[1]);
        ptx::mma_16x8x16<Tag>(s[i][2 * p + 1], rows.tile[i], pair.r[2], pair.r[3]);
      }
    }
  }
}

/// The accumulators of two products side by side are the row operand of the next.
template <class Tag>
TRENCADIS_DEVICE void pack_weights(unsigned (&a)[4], const float (&left)[4],
                                   const float (&right)[4]) {
  a[0] = ptx::pack<Tag>(left[0], left[1]);
  a[1] = ptx::pack<Tag>(left[2], left[3]);
  a[2] = ptx::pack<Tag>(right[0], right[1]);
  a[3] = ptx::pack<Tag>(right[2], right[3]);
}

/// o += s v. The walk is tile::walk_rows, where the warp's keys begin.
template <class Tag, class Values, int kRowTiles, int kKeyTiles, int kOutTiles>
TRENCADIS_DEVICE void multiply_values(ptx::SharedAddress walk,
                                      const float (&s)[kRowTiles][kKeyTiles][4],
                                      float (&o)[kRowTiles][kOutTiles][4]) {
  constexpr int kSteps = kKeyTiles / 2;
  constexpr int kParts = kOutTiles / 2;
  ColumnOperand pair, next_pair;
  tile::load_values<Values>(next_pair.r, walk, 0, 0);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    RowOperand<kRowTiles> weights;
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i)
      pack_weights<Tag>(weights.tile[i], s[i][2 * step], s[i][2 * step + 1]);
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      pair = next_pair;
      if (part + 1 < kParts)
        tile::load_values<Values>(next_pair.r, walk, 16 * step, part + 1);
      else if (step + 1 < kSteps)
        tile::load_values<Values>(next_pair.r, walk, 16 * (step + 1), 0);
#pragma unroll
      for (int i = 0; i < kRowTiles; ++i) {
        ptx::mma_16x8x16<Tag>(o[i][2 * part], weights.tile[i], pair.r[0], pair.r[1]);
        ptx::mma_16x8x16<Tag>(o[i][2 * part + 1], weights.tile[i], pair.r[2], pair.r[3]);
      }
    }
  }
}

}  // namespace trencadis::collective
