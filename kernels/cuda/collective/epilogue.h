// The end of a work item: rows leave as final output or as a partial state, and partial states of a
// split row block merge into the final output. Sinks and the output hook act exactly once, here.
#pragma once

#include "contract/params.h"
#include "contract/plan.h"
#include "cuda/collective/block.h"
#include "cuda/collective/element.h"
#include "cuda/collective/shape.h"
#include "cuda/collective/softmax.h"
#include "cuda/ptx/math.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/thread.h"
#include "variant/chain.h"

namespace trencadis::collective {

/// A row's maximum (a natural logit) and sum, over all of its keys or those of one work item.
struct RowTotal {
  float max;
  float sum;

  /// In natural logarithms; minus infinity where no key was seen.
  TRENCADIS_DEVICE float lse() const {
    return sum == 0.0f ? negative_infinity() : max + ptx::log2_approx(sum) * kLn2;
  }
  /// 1 / sum; 0 where no key was seen, so that the row becomes 0.
  TRENCADIS_DEVICE float inverse() const { return sum == 0.0f ? 0.0f : ptx::reciprocal(sum); }

  /// 1 / (sum + the sink's weight), the weights relative to `max`.
  TRENCADIS_DEVICE float inverse_with_sink(float sink) const {
    if (sum == 0.0f) return 0.0f;
    // Where the sink outweighs all keys by more than 2^127 this is 1 / infinity, and the row is 0.
    return ptx::reciprocal(sum + ptx::exp2_approx((sink - max) * kLog2E));
  }
};

template <class Config>
struct FinalRow {
  using Functor = typename Config::Functor;
  using Params = typename Config::Params;

  /// Element `d` of a final row: `value` is normalised and merged.
  TRENCADIS_DEVICE static void store(const contract::AttentionParams& params, const Params& p,
                                     const Block& block, const RowEntry& row, int d, float value) {
    if constexpr (variant::kHasHook<Functor, variant::kOutputTransform>)
      value = Functor::output_transform(p, value, d, block.row_coord(row));
    const long long at =
        static_cast<long long>(block.qo_begin + row.qo_pos) * params.o_stride_token +
        row.qo_head * params.o_stride_head + d;
    using Output = Element<typename Config::Output>;
    static_cast<typename Output::Storage*>(params.o)[at] = Output::store(value);
  }

  TRENCADIS_DEVICE static float normaliser(const contract::AttentionParams& params,
                                           const RowEntry& row, const RowTotal& total) {
    if constexpr (!Config::kUseSoftmax) return 1.0f;
    return params.sinks != nullptr ? total.inverse_with_sink(params.sinks[row.qo_head])
                                   : total.inverse();
  }

  /// The LSE is without the sink, so that the state can still be merged with others.
  TRENCADIS_DEVICE static void store_lse(const contract::AttentionParams& params,
                                         const Block& block, const RowEntry& row,
                                         const RowTotal& total) {
    if (!Config::kUseSoftmax || params.lse == nullptr) return;
    const float natural = total.lse();
    params.lse[static_cast<long long>(block.qo_begin + row.qo_pos) * params.lse_stride_token +
               row.qo_head * params.lse_stride_head] =
        params.lse_base_two != 0 ? natural * kLog2E : natural;
  }
};

/// Where the rows of an item go: the output, or a slot of partial states.
struct Destination {
  int slot;       // contract::kWriteThrough: the output
  int slot_rows;  // rows of a slot

  TRENCADIS_FN bool is_final() const { return slot == contract::kWriteThrough; }
  TRENCADIS_FN long long row(int r) const { return static_cast<long long>(slot) * slot_rows + r; }
};

/// Writes the rows of an item from the state of all warps. `Loop` is the main loop that holds it:
/// its states of one row by several warps are first merged, in the order of the keys.
template <class Config, class Loop>
class Epilogue {
 public:
  using Shape = typename Loop::Shape;

  TRENCADIS_DEVICE Epilogue(const contract::AttentionParams& params,
                            const typename Config::Params& variant, const Block& block,
                            const Destination& to, char* shared)
      : params_(params), variant_(variant), block_(block), to_(to), shared_(shared) {}

  /// The ring of stages is free, and free again afterwards.
  TRENCADIS_DEVICE void run(Loop& loop) {
    if constexpr (Config::kUseSoftmax) publish_states(loop);
    write_row_totals();
#pragma unroll
    for (int first = 0; first < Shape::kDimVo; first += Shape::kSlice) {
      put_slice(loop, first);
      ptx::sync_cta();
      write_slice(first);
      ptx::sync_cta();
    }
  }

 private:
  TRENCADIS_DEVICE float* maxima() const {
    return reinterpret_cast<float*>(shared_ + Shape::kStates);
  }
  TRENCADIS_DEVICE float* sums() const {
    return maxima() + Shape::kStateRows;
  }
  TRENCADIS_DEVICE float* output() const {
    return reinterpret_cast<float*>(shared_ + Shape::kOutput);
  }
  TRENCADIS_DEVICE const RowEntry& row(int r) const {
    return reinterpret_cast<const RowEntry*>(shared_ + Shape::kRowTable)[r];
  }

  TRENCADIS_DEVICE void publish_states(Loop& loop) const {
#pragma unroll
    for (int r = 0; r < Loop::kThreadRows; ++r) {
      const float sum = sum_of_quad(loop.state[r].sum);
      if (ptx::lane_index() % 4 == 0) {
        maxima()[loop.state_row(r)] = loop.state[r].max * loop.unit();
        sums()[loop.state_row(r)] = sum;
      }
    }
    ptx::sync_cta();
  }

  /// Of row r, over the warps that hold parts of it.
  TRENCADIS_DEVICE RowTotal total(int r) const {
    RowTotal total{negative_infinity(), 0.0f};
#pragma unroll
    for (int w = 0; w < Shape::kKvWarps; ++w)
      total.max = fmaxf(total.max, maxima()[w * Shape::kRows + r]);
#pragma unroll
    for (int w = 0; w < Shape::kKvWarps; ++w)
      total.sum += sums()[w * Shape::kRows + r] * weight(w, r, total.max);
    return total;
  }
  /// What a warp's part of row r counts relative to the maximum of all parts.
  TRENCADIS_DEVICE float weight(int warp, int r, float max) const {
    const float own = maxima()[warp * Shape::kRows + r];
    return own == negative_infinity() ? 0.0f : ptx::exp2_approx((own - max) * kLog2E);
  }

  TRENCADIS_DEVICE void write_row_totals() const {
    for (int r = ptx::thread_index(); r < block_.rows; r += Shape::kThreads) {
      RowTotal of_row{0.0f, 1.0f};
      if constexpr (Config::kUseSoftmax) of_row = total(r);
      if (to_.is_final())
        FinalRow<Config>::store_lse(params_, block_, row(r), of_row);
      else
        params_.partial_lse[to_.row(r)] = Config::kUseSoftmax ? of_row.lse() : 0.0f;
    }
  }

  /// Columns [first, first + kSlice) of each warp's rows, scaled so that parts of a row add up to
  /// its final value.
  TRENCADIS_DEVICE void put_slice(const Loop& loop, int first) const {
#pragma unroll
    for (int r = 0; r < Loop::kThreadRows; ++r) {
      const int tile_row = loop.thread_row(r);
      const float scale = scale_of(tile_row, loop.state_row(r) / Shape::kRows);
      float* to = output() + loop.state_row(r) * Shape::kSliceStride;
#pragma unroll
      for (int j = 0; j < Loop::kOutTiles; ++j) {
        if (j * 8 < first || j * 8 >= first + Shape::kSlice) continue;
#pragma unroll
        for (int c = 0; c < 2; ++c)
          to[loop.thread_column(j, c) - first] = loop.o[r / 2][j][r % 2 * 2 + c] * scale;
      }
    }
  }

  TRENCADIS_DEVICE float scale_of(int r, int warp) const {
    if constexpr (!Config::kUseSoftmax) return 1.0f;
    if (r >= block_.rows) return 0.0f;
    const RowTotal of_row = total(r);
    const float inverse =
        to_.is_final() ? FinalRow<Config>::normaliser(params_, row(r), of_row) : of_row.inverse();
    return inverse * weight(warp, r, of_row.max);
  }

  TRENCADIS_DEVICE void write_slice(int first) const {
    constexpr int kCols = Shape::kSlice;
    for (int i = ptx::thread_index(); i < block_.rows * kCols; i += Shape::kThreads) {
      const int r = i / kCols;
      const int col = i % kCols;
      const int d = first + col;
      if (d >= Config::kHeadDimVo) continue;
      float value = 0.0f;
#pragma unroll
      for (int w = 0; w < Shape::kKvWarps; ++w)
        value += output()[(w * Shape::kRows + r) * Shape::kSliceStride + col];
      if (to_.is_final())
        FinalRow<Config>::store(params_, variant_, block_, row(r), d, value);
      else
        params_.partial_o[to_.row(r) * Config::kHeadDimVo + d] = value;
    }
  }

  const contract::AttentionParams& params_;
  const typename Config::Params& variant_;
  const Block& block_;
  Destination to_;
  char* shared_;
};

}  // namespace trencadis::collective
