// What follows from a kernel's configuration and one of its tile classes: who works on which part
// of a tile, and where everything lies in shared memory.
//
// A configuration is a generated struct:
//
//   struct Config {
//     static constexpr int kHeadDimQk, kHeadDimVo;  // multiples of 8
//     using Element, Output;                        // ptx::Half, ptx::BFloat, float
//     static constexpr bool kUseSoftmax;
//     static constexpr int kWarps;                  // of a CTA
//     using TileClasses = collective::TileClasses<collective::Tile<16, 64, 3>, ...>;
//     using Functor, Params;                        // variant/hooks.h
//   };
#pragma once

#include "contract/units.h"
#include "cuda/collective/element.h"
#include "cuda/ptx/thread.h"
#include "cuda/tile/shared_tile.h"

namespace trencadis::collective {

/// T_q fused rows by T_kv tokens, with kInFlight tiles of K and V in shared memory.
template <int kQueryRows, int kKvTokens, int kInFlight = 2>
struct Tile {
  static constexpr int kRows = kQueryRows;
  static constexpr int kTokens = kKvTokens;
  static constexpr int kStages = kInFlight;
  static_assert(kStages >= 2, "a tile is read while another is on its way");
};

/// In the order of the plan's classes.
template <class... Tiles>
struct TileClasses {};

TRENCADIS_FN constexpr int round_up(int value, int step) {
  return (value + step - 1) / step * step;
}
TRENCADIS_FN constexpr int min_of(int a, int b) {
  return a < b ? a : b;
}
TRENCADIS_FN constexpr int max_of(int a, int b) {
  return a > b ? a : b;
}

/// Where a token of a KV tile lies: its row of the head's keys, and of the values; null where the
/// tile has no such token.
struct alignas(16) TokenEntry {
  const char* key;
  const char* value;
};

/// First in shared memory are what all items of a launch share (launch.h) and the one that the CTA
/// works on (item.h): read when they are asked for, they leave the registers to the tiles.
inline constexpr int kLaunchBytes = 32;
inline constexpr int kWorkBytes = 160;
inline constexpr int kHeadBytes = kLaunchBytes + kWorkBytes;

/// Row of a query tile: token of the request, and head.
struct RowEntry {
  int qo_pos;
  int qo_head;
};

/// Warps of the tensor cores: kQueryWarps share the rows of a tile, kKvWarps its keys. Each keeps
/// the state of its rows over its keys; states of warps that share rows meet in the epilogue. Warps
/// beyond them, where a tile is too small for all, only copy.
template <class Config, class Tile>
struct TileShape {
  static constexpr int kRows = Tile::kRows;
  static constexpr int kTokens = Tile::kTokens;
  static constexpr int kThreads = Config::kWarps * 32;
  static constexpr int kStages = Tile::kStages;
  static_assert(kTokens <= kThreads, "a thread looks up one token of a tile");

  static constexpr int kQueryWarps = min_of(Config::kWarps, kRows / 16);
  static constexpr int kKvWarps = min_of(Config::kWarps / kQueryWarps, kTokens / 16);
  static constexpr int kTileWarps = kQueryWarps * kKvWarps;
  static constexpr int kWarpRows = kRows / kQueryWarps;
  static constexpr int kRowTiles = kWarpRows / 16;
  static constexpr int kWarpKeys = kTokens / kKvWarps;
  static_assert(kWarpRows % 16 == 0 && kWarpKeys % 16 == 0,
                "a warp multiplies whole tiles of 16 rows by 16 keys");

  static constexpr int kDimQk = round_up(Config::kHeadDimQk, 16);
  static constexpr int kDimVo = round_up(Config::kHeadDimVo, 16);
  using QueryTile = tile::SharedTile<kDimQk>;
  using KeyTile = tile::SharedTile<kDimQk>;
  using ValueTile = tile::SharedTile<kDimVo>;

  static constexpr int kStateRows = kKvWarps * kRows;

  /// Those who work on the tile meet.
  TRENCADIS_DEVICE static void sync() { ptx::sync_cta(); }

  // Shared memory, in bytes from its start.
  static constexpr int kTables = kStages + 1;  // tiles whose tokens are known
  static constexpr int kRowTable = kHeadBytes;
  static constexpr int kTokenTable = round_up(kRowTable + kRows * int(sizeof(RowEntry)), 128);
  static constexpr int kPositionTable = kTokenTable + kTables * kTokens * int(sizeof(TokenEntry));
  static constexpr int kSeenKeys = kPositionTable + kTables * kTokens * int(sizeof(int));
  static constexpr int kRowScratch = round_up(kSeenKeys + kTokens * int(sizeof(int)), 16);
  static constexpr int kRowScratchBytes = max_of(kDimQk, kDimVo) * int(sizeof(float));  // a warp
  static constexpr int kQuery = round_up(kRowScratch + Config::kWarps * kRowScratchBytes, 128);
  static constexpr int kRing = round_up(kQuery + QueryTile::bytes(kRows), 128);
  static constexpr int kKeyBytes = round_up(KeyTile::bytes(kTokens), 128);
  static constexpr int kStageBytes = kKeyBytes + round_up(ValueTile::bytes(kTokens), 128);
  // The epilogue works where the stages were, on kSlice columns of all warps' rows at a time: all,
  // where there is room.
  static constexpr int kStates = kRing;  // row_max, then row_sum, of kStateRows
  static constexpr int kOutput = round_up(kStates + 2 * kStateRows * int(sizeof(float)), 128);
  static constexpr int kSlicePad = 8;  // floats between rows
  TRENCADIS_FN static constexpr int output_end(int columns) {
    return round_up(kOutput + kStateRows * (columns + kSlicePad) * int(sizeof(float)), 128);
  }
  static constexpr int kStagesEnd = kRing + kStages * kStageBytes;
  static constexpr int kSlice = output_end(kDimVo) <= kStagesEnd ? kDimVo : min_of(kDimVo, 64);
  /// Where no other warp holds a part of a warp's rows, each warp writes its own.
  static constexpr bool kWarpsWrite = kKvWarps == 1 && kTileWarps == Config::kWarps;
  static constexpr int kBytes = kWarpsWrite ? kStagesEnd : max_of(kStagesEnd, output_end(kSlice));
};

}  // namespace trencadis::collective
