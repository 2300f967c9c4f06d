// Attention of one row on CUDA cores, in float32: for a head that shares its keys with no other
// row, where a matrix product would be padding, and for elements that tensor cores do not take.
//
// A tile is worked on in three steps with a barrier between: a thread a key sums q k (threads that
// share a key take turns at its chunks), each warp makes all weights for itself, a thread a chunk
// of the output sums weights times values over its share of the keys.
#pragma once

#include "contract/params.h"
#include "cuda/collective/block.h"
#include "cuda/collective/element.h"
#include "cuda/collective/epilogue.h"
#include "cuda/collective/kv_source.h"
#include "cuda/collective/launch.h"
#include "cuda/collective/row_scratch.h"
#include "cuda/collective/shape.h"
#include "cuda/collective/softmax.h"
#include "cuda/collective/transform.h"
#include "cuda/ptx/math.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/thread.h"
#include "variant/chain.h"

namespace trencadis::collective {

template <class Config, class Tile>
struct VectorShape {
  static_assert(Tile::kRows == 1);
  static constexpr int kTokens = Tile::kTokens;
  static constexpr int kThreads = Config::kWarps * 32;
  static constexpr int kStages = Tile::kStages;
  static_assert(kThreads % kTokens == 0 && kTokens % 32 == 0, "threads share a key evenly");

  static constexpr int kElementBytes = Element<typename Config::Element>::kBytes;
  static constexpr int kDimQk = round_up(Config::kHeadDimQk, 16);
  static constexpr int kDimVo = round_up(Config::kHeadDimVo, 16);
  using KeyTile = tile::SharedTile<kDimQk, kElementBytes>;
  using ValueTile = tile::SharedTile<kDimVo, kElementBytes>;

  static constexpr int kKeyShares = kThreads / kTokens;  // threads of one key
  static constexpr int kLaneKeys = kTokens / 32;         // weights that a lane makes
  /// Threads of one chunk of the output, each for its share of the keys; threads beyond have none.
  static constexpr int kValueShares = max_of(1, min_of(kThreads / ValueTile::kChunks, kTokens));
  /// Chunks of the output of a thread, where there are more of them than threads.
  static constexpr int kThreadChunks = (ValueTile::kChunks + kThreads - 1) / kThreads;

  // Shared memory, in bytes from its start.
  static constexpr int kTables = kStages + 1;
  static constexpr int kTokenTable = kHeadBytes;
  static constexpr int kPositionTable = kTokenTable + kTables * kTokens * int(sizeof(TokenEntry));
  static constexpr int kQuery = kPositionTable + kTables * kTokens * int(sizeof(int));
  static constexpr int kLogits = kQuery + 2 * kDimQk * int(sizeof(float));  // [shares][tokens]
  static constexpr int kWeights = kLogits + kThreads * int(sizeof(float));  // [tokens]
  static constexpr int kRowScratch = round_up(kWeights + kTokens * int(sizeof(float)), 16);
  static constexpr int kRowScratchBytes = max_of(kDimQk, kDimVo) * int(sizeof(float));  // a warp
  static constexpr int kRing = round_up(kRowScratch + Config::kWarps * kRowScratchBytes, 128);
  static constexpr int kKeyBytes = round_up(KeyTile::bytes(kTokens), 128);
  static constexpr int kStageBytes = kKeyBytes + round_up(ValueTile::bytes(kTokens), 128);
  // The epilogue works where the stages were: [shares][D_vo].
  static constexpr int kOutputBytes = kValueShares * kDimVo * int(sizeof(float));
  static constexpr int kBytes = kRing + max_of(kStages * kStageBytes, kOutputBytes);
};

template <class Config, class Tile>
class VectorLoop {
 public:
  using Shape = VectorShape<Config, Tile>;
  using Functor = typename Config::Functor;
  using Tag = typename Config::Element;
  using Source = KvSource<Config, Shape>;
  using Chunk = FloatChunk<Tag>;

  TRENCADIS_DEVICE VectorLoop(const Launch<Config>& launch, const Block& block)
      : launch_(launch),
        block_(block),
        thread_(ptx::opaque(ptx::thread_index())),
        row_(block.row(0)) {}

  /// Attends the row to storage tokens [begin, end) and writes it.
  TRENCADIS_DEVICE void run(int begin, int end, const Destination& to) {
    const Source source(launch_, block_, begin, end);
    for (int tile = 0; tile < Shape::kStages; ++tile) source.publish(tile, source.look_up(tile));
    ptx::sync_cta();
    for (int tile = 0; tile < Shape::kStages - 1; ++tile) source.copy(tile);
    load_query();
    for (int tile = 0; tile < source.tiles(); ++tile) {
      ptx::wait_copies<Shape::kStages - 2>();
      ptx::sync_cta();
      source.copy(tile + Shape::kStages - 1);
      const typename Source::Lookup ahead = source.look_up(tile + Shape::kStages);
      transform_tokens<Config, Shape>(launch_, block_, source, tile);
      score(source.keys(tile));
      ptx::sync_cta();
      const float rescale = weigh(source, tile);
      ptx::sync_cta();
      accumulate(source.values(tile), source.tokens(tile), rescale);
      source.publish(tile + Shape::kStages, ahead);
    }
    ptx::wait_copies<0>();
    ptx::sync_cta();
    finish(to);
  }

 private:
  TRENCADIS_DEVICE float* floats(int offset) const {
    return reinterpret_cast<float*>(launch_.shared + offset);
  }

  // --- the query, in floats
  // ------------------------------------------------------------------------

  TRENCADIS_DEVICE void load_query() {
    using Storage = typename Element<Tag>::Storage;
    const auto* q = static_cast<const Storage*>(launch_.params.q) +
                    (block_.qo_begin + row_.qo_pos) * launch_.params.q_stride_token +
                    row_.qo_head * launch_.params.q_stride_head;
    constexpr bool kTransforms = variant::kHasHook<Functor, variant::kQueryTransform>;
    float* source = floats(Shape::kQuery) + Shape::kDimQk;
    float* query = floats(Shape::kQuery);
    for (int d = thread_; d < Shape::kDimQk; d += Shape::kThreads)
      source[d] = d < Config::kHeadDimQk ? Element<Tag>::load(q[d]) : 0.0f;
    ptx::sync_cta();
    const float scale = launch_.negate ? -launch_.scale : launch_.scale;
    for (int d = thread_; d < Shape::kDimQk; d += Shape::kThreads) {
      float value = source[d];
      if constexpr (kTransforms) {
        if (d < Config::kHeadDimQk)
          value = Functor::query_transform(launch_.variant, FloatRow{source, Config::kHeadDimQk}, d,
                                           block_.row_coord(row_));
      }
      query[d] = value * scale;
    }
  }

  // --- one tile
  // ------------------------------------------------------------------------------------

  TRENCADIS_DEVICE void score(ptx::SharedAddress keys) const {
    const int token = thread_ % Shape::kTokens;
    const int share = thread_ / Shape::kTokens;
    const float* query = floats(Shape::kQuery);
    float sums[Chunk::kElements] = {};
#pragma unroll 4
    for (int c = share; c < Shape::KeyTile::kChunks; c += Shape::kKeyShares) {
      const Chunk key(ptx::load_shared_16(keys + Shape::KeyTile::offset(token, c)));
#pragma unroll
      for (int i = 0; i < Chunk::kElements; ++i)
        sums[i] += query[c * Chunk::kElements + i] * key.x[i];
    }
#pragma unroll
    for (int n = Chunk::kElements / 2; n > 0; n /= 2)
#pragma unroll
      for (int i = 0; i < n; ++i) sums[i] += sums[i + n];
    floats(Shape::kLogits)[thread_] = sums[0];
  }

  /// Logits become weights; returns what the output so far is to be multiplied by. Every warp finds
  /// the same state, the first tells the weights.
  TRENCADIS_DEVICE float weigh(const Source& source, int tile) {
    const int tokens = source.tokens(tile);
    const Visible visible = launch_.bounds.visible(block_.position(row_.qo_pos));
    float s[Shape::kLaneKeys];
#pragma unroll
    for (int k = 0; k < Shape::kLaneKeys; ++k)
      s[k] = logit(source, tile, tokens, visible, k * 32 + (thread_ & 31));
    float rescale = 1.0f;
    if constexpr (Config::kUseSoftmax) rescale = weigh_lanes(s);
    if (thread_ < 32) {
#pragma unroll
      for (int k = 0; k < Shape::kLaneKeys; ++k)
        floats(Shape::kWeights)[k * 32 + (thread_ & 31)] = s[k];
    }
    return rescale;
  }

  TRENCADIS_DEVICE float logit(const Source& source, int tile, int tokens, const Visible& visible,
                               int token) const {
    constexpr float kHidden = Config::kUseSoftmax ? negative_infinity() : 0.0f;
    float sum = 0.0f;
#pragma unroll
    for (int share = 0; share < Shape::kKeyShares; ++share)
      sum += floats(Shape::kLogits)[share * Shape::kTokens + token];
    const int position = source.position(tile, token);
    const variant::LogitCoord at = block_.logit_coord(row_, position);
    if constexpr (variant::kHasHook<Functor, variant::kLogitsTransform>)
      sum = Functor::logits_transform(launch_.variant, sum, at);
    bool keep = token < tokens && visible.holds(position);
    if constexpr (variant::kHasHook<Functor, variant::kLogitsMask>)
      keep = keep && Functor::logits_mask(launch_.variant, at);
    return keep ? sum : kHidden;
  }

  TRENCADIS_DEVICE float weigh_lanes(float (&s)[Shape::kLaneKeys]) {
    float largest = state_.base;
#pragma unroll
    for (int k = 0; k < Shape::kLaneKeys; ++k) {
      largest = fmaxf(largest, s[k]);
    }
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2)
      largest = fmaxf(largest, ptx::shuffle_xor(largest, lanes));
    const float base = largest == negative_infinity() ? 0.0f : largest;
    const float rescale = ptx::exp2_approx((state_.base - base) * kLog2E);
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < Shape::kLaneKeys; ++k) {
      s[k] = ptx::exp2_approx((s[k] - base) * kLog2E);
      sum += s[k];
    }
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) sum += ptx::shuffle_xor(sum, lanes);
    state_.base = largest;
    state_.sum = state_.sum * rescale + sum;
    return rescale;
  }

  TRENCADIS_DEVICE void accumulate(ptx::SharedAddress values, int tokens, float rescale) {
    const int share = thread_ / Shape::ValueTile::kChunks;
    const float* weights = floats(Shape::kWeights);
#pragma unroll
    for (int t = 0; t < Shape::kThreadChunks; ++t) {
      const int chunk = thread_ % Shape::ValueTile::kChunks + t * Shape::kThreads;
#pragma unroll
      for (int i = 0; i < Chunk::kElements; ++i) o_[t][i] *= rescale;
      if (share >= Shape::kValueShares || chunk >= Shape::ValueTile::kChunks) continue;
#pragma unroll 4
      for (int token = share; token < tokens; token += Shape::kValueShares) {
        const float weight = weights[token];
        // A value without weight may be garbage, and 0 * NaN is NaN.
        if (weight == 0.0f) continue;
        const Chunk value(ptx::load_shared_16(values + Shape::ValueTile::offset(token, chunk)));
#pragma unroll
        for (int i = 0; i < Chunk::kElements; ++i) o_[t][i] += weight * value.x[i];
      }
    }
  }

  // --- the row leaves
  // ------------------------------------------------------------------------------

  TRENCADIS_DEVICE void finish(const Destination& to) const {
    const int share = thread_ / Shape::ValueTile::kChunks;
    float* output = floats(Shape::kRing);
#pragma unroll
    for (int t = 0; t < Shape::kThreadChunks; ++t) {
      const int chunk = thread_ % Shape::ValueTile::kChunks + t * Shape::kThreads;
      if (share >= Shape::kValueShares || chunk >= Shape::ValueTile::kChunks) continue;
#pragma unroll
      for (int i = 0; i < Chunk::kElements; ++i)
        output[share * Shape::kDimVo + chunk * Chunk::kElements + i] = o_[t][i];
    }
    ptx::sync_cta();
    RowTotal total{0.0f, 1.0f};
    if constexpr (Config::kUseSoftmax) total = {state_.base, state_.sum};
    const FinalRow<Config> final(launch_.params, launch_.variant);
    const float normaliser = !Config::kUseSoftmax ? 1.0f
                             : to.is_final()      ? final.normaliser(row_, total)
                                                  : total.inverse();
    for (int d = thread_; d < Config::kHeadDimVo; d += Shape::kThreads) {
      float value[1] = {0.0f};
#pragma unroll 4
      for (int s = 0; s < Shape::kValueShares; ++s) value[0] += output[s * Shape::kDimVo + d];
      value[0] *= normaliser;
      if (to.is_final())
        final.store(block_, row_, d, value);
      else
        launch_.params.partial_o[to.row(0) * Config::kHeadDimVo + d] = value[0];
    }
    if (thread_ == 0) {
      if (to.is_final())
        final.store_lse(block_, row_, total);
      else
        launch_.params.partial_lse[to.row(0)] = Config::kUseSoftmax ? total.lse() : 0.0f;
    }
    ptx::sync_cta();
  }

  const Launch<Config>& launch_;
  const Block& block_;
  const int thread_;
  RowEntry row_;
  RowState state_;
  float o_[Shape::kThreadChunks][Chunk::kElements] = {};
};

}  // namespace trencadis::collective
