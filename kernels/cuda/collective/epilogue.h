// The end of a work item: rows leave as final output or as a partial state, and partial states of a
// split row block merge into the final output. Sinks and the output hook act exactly once, here.
#pragma once

#include "contract/params.h"
#include "contract/units.h"
#include "cuda/collective/block.h"
#include "cuda/collective/element_run.h"
#include "cuda/collective/queries.h"
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

/// How rows become output.
template <class Config>
struct FinalRow {
  using Functor = typename Config::Functor;
  using Params = typename Config::Params;
  using Output = typename Config::Output;
  /// Neighbouring elements that a thread stores together; head dims are multiples of it.
  static constexpr int kRun = 8;
  static_assert(Config::kHeadDimVo % kRun == 0);

  TRENCADIS_DEVICE FinalRow(const contract::AttentionParams& arguments, const Params& hooked)
      : params(arguments),
        variant(hooked),
        aligned_(
            rows_aligned<Output>(arguments.o, arguments.o_stride_token, arguments.o_stride_head)) {}

  /// Elements [d, d + kCount) of a row: the values are normalised and merged.
  template <int kCount>
  TRENCADIS_DEVICE void store(const Block& block, const RowEntry& row, int d,
                              float (&values)[kCount]) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = transformed(block, row, d + i, values[i]);
    char* const to = place(block, row, d);
    if constexpr (kCount * Element<Output>::kBytes % 16 == 0) {
      if (aligned_) return store_run<Output>(to, values);
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      store_element<Output>(to + i * Element<Output>::kBytes, values[i]);
  }

  /// The hook.
  TRENCADIS_DEVICE float transformed(const Block& block, const RowEntry& row, int d,
                                     float value) const {
    if constexpr (variant::kHasHook<Functor, variant::kOutputTransform>)
      return Functor::output_transform(variant, value, d, block.row_coord(row));
    else
      return value;
  }
  TRENCADIS_DEVICE char* place(const Block& block, const RowEntry& row, int d) const {
    return element_at<Output>(params.o, (block.qo_begin + row.qo_pos) * params.o_stride_token +
                                            row.qo_head * params.o_stride_head + d);
  }
  /// Whether every row begins at a multiple of 16 bytes.
  TRENCADIS_DEVICE bool aligned() const {
    return aligned_;
  }

  TRENCADIS_DEVICE float normaliser(const RowEntry& row, const RowTotal& total) const {
    if constexpr (!Config::kUseSoftmax) return 1.0f;
    return params.sinks != nullptr ? total.inverse_with_sink(params.sinks[row.qo_head])
                                   : total.inverse();
  }

  /// The LSE is without the sink, so that the state can still be merged with others.
  TRENCADIS_DEVICE void store_lse(const Block& block, const RowEntry& row,
                                  const RowTotal& total) const {
    if (!Config::kUseSoftmax || params.lse == nullptr) return;
    const float natural = total.lse();
    params.lse[static_cast<long long>(block.qo_begin + row.qo_pos) * params.lse_stride_token +
               row.qo_head * params.lse_stride_head] =
        params.lse_base_two != 0 ? natural * kLog2E : natural;
  }

  const contract::AttentionParams& params;
  const Params variant;

 private:
  bool aligned_;
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

  TRENCADIS_DEVICE Epilogue(const Loop& loop, const Destination& to)
      : loop_(loop),
        final_(loop.launch().params, loop.launch().variant),
        block_(loop.block()),
        to_(to),
        shared_(loop.launch().shared) {}

  /// The room for states and output is free; after the next meeting it is again.
  TRENCADIS_DEVICE void run() {
    if constexpr (Config::kUseSoftmax) publish_states();
    write_row_totals();
    float scale[Loop::kThreadRows];
#pragma unroll
    for (int r = 0; r < Loop::kThreadRows; ++r)
      scale[r] = scale_of(loop_.thread_row(r), loop_.state_row(r) / Shape::kRows);
    const int columns = columns_of_rows();
#pragma unroll 1
    for (int first = 0; first < Shape::kDimVo; first += columns) {
      if (first > 0) Shape::sync();
      put(first, columns, scale);
      Shape::sync();
      write(first, columns);
    }
  }

 private:
  TRENCADIS_DEVICE float* maxima() const {
    return reinterpret_cast<float*>(shared_ + Shape::kStates);
  }
  TRENCADIS_DEVICE float* sums() const {
    return maxima() + Shape::kStateRows;
  }
  TRENCADIS_DEVICE RowEntry row(int r) const {
    return loop_.row(r);
  }

  TRENCADIS_DEVICE void publish_states() const {
#pragma unroll
    for (int r = 0; r < Loop::kThreadRows; ++r) {
      if (!loop_.has_part()) break;
      const float sum = sum_of_quad(loop_.state(r).sum);
      if (ptx::lane_index() % 4 == 0) {
        maxima()[loop_.state_row(r)] = loop_.state(r).base * loop_.unit();
        sums()[loop_.state_row(r)] = sum;
      }
    }
    Shape::sync();
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
        final_.store_lse(block_, row(r), of_row);
      else
        final_.params.partial_lse[to_.row(r)] = Config::kUseSoftmax ? of_row.lse() : 0.0f;
    }
  }

  TRENCADIS_DEVICE float scale_of(int r, int warp) const {
    if constexpr (!Config::kUseSoftmax) return 1.0f;
    if (r >= block_.rows || !loop_.has_part()) return 0.0f;
    const RowTotal of_row = total(r);
    const float inverse = to_.is_final() ? final_.normaliser(row(r), of_row) : of_row.inverse();
    return inverse * weight(warp, r, of_row.max);
  }

  // --- outputs -----------------------------------------------------------------------------------

  /// There is room for Shape::kSlice columns of all rows at a time; of fewer rows for more columns.
  TRENCADIS_DEVICE int columns_of_rows() const {
    constexpr int kRoom = Shape::kStateRows * (Shape::kSlice + kPad);
    int columns = Shape::kSlice;
    while (columns < Shape::kDimVo && block_.rows * Shape::kKvWarps * (2 * columns + kPad) <= kRoom)
      columns *= 2;
    return columns;
  }
  static constexpr int kPad = Shape::kSlicePad;

  struct alignas(8) Pair {
    float left, right;
  };
  /// Of a warp's part of row r, columns [first, first + columns).
  TRENCADIS_DEVICE ptx::SharedAddress output(int warp, int r, int columns) const {
    return ptx::shared_place(shared_) +
           (Shape::kOutput + (warp * block_.rows + r) * (columns + kPad) * int(sizeof(float)));
  }

  /// Scaled so that the parts of a row add up to its final value.
  TRENCADIS_DEVICE void put(int first, int columns, const float (&scale)[Loop::kThreadRows]) const {
    if (!loop_.has_part()) return;
#pragma unroll
    for (int r = 0; r < Loop::kThreadRows; ++r) {
      const int tile_row = loop_.thread_row(r);
      if (tile_row >= block_.rows) continue;
      const ptx::SharedAddress to = output(loop_.state_row(r) / Shape::kRows, tile_row, columns) +
                                    (loop_.thread_column(0, 0) - first) * int(sizeof(float));
#pragma unroll
      for (int j = 0; j < Loop::kOutTiles; ++j) {
        if (j * 8 < first || j * 8 >= first + columns) continue;
        const float* const values = &loop_.o[r / 2][j][r % 2 * 2];
        ptx::store_shared(to + j * 8 * int(sizeof(float)),
                          Pair{values[0] * scale[r], values[1] * scale[r]});
      }
    }
  }

  template <int kCount>
  TRENCADIS_DEVICE static void read(ptx::SharedAddress from, float (&values)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      const ptx::Bytes16 four = ptx::load_shared_16(from + i * int(sizeof(float)));
#pragma unroll
      for (int n = 0; n < 4; ++n) values[i + n] = __builtin_bit_cast(float, four.w[n]);
    }
  }

  TRENCADIS_DEVICE void write(int first, int columns) const {
    constexpr int kRun = FinalRow<Config>::kRun;
    const unsigned runs = static_cast<unsigned>(columns / kRun);
#pragma unroll 1
    for (unsigned i = ptx::thread_index(); i < unsigned(block_.rows) * runs;
         i += unsigned{Shape::kThreads}) {
      const int r = static_cast<int>(i / runs);
      const int column = static_cast<int>(i - r * runs) * kRun;
      const int d = first + column;
      if (d >= Config::kHeadDimVo) continue;
      float values[kRun];
      read(output(0, r, columns) + column * int(sizeof(float)), values);
#pragma unroll
      for (int w = 1; w < Shape::kKvWarps; ++w) {
        float part[kRun];
        read(output(w, r, columns) + column * int(sizeof(float)), part);
#pragma unroll
        for (int c = 0; c < kRun; ++c) values[c] += part[c];
      }
      if (to_.is_final())
        final_.store(block_, row(r), d, values);
      else
        store_run<float>(
            element_at<float>(final_.params.partial_o, to_.row(r) * Config::kHeadDimVo + d),
            values);
    }
  }

  const Loop& loop_;
  const FinalRow<Config> final_;
  const Block& block_;
  Destination to_;
  char* shared_;
};

/// A word of each of four tiles, of a row that the lanes 4 i .. 4 i + 3 share, becomes all four
/// words of one tile: of tile lane % 4.
TRENCADIS_DEVICE void gather_tile(unsigned (&words)[4]) {
  const int lane = ptx::lane_index();
#pragma unroll
  for (int bit = 1; bit <= 2; bit *= 2) {
    const bool upper = (lane & bit) != 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if ((i & bit) != 0) continue;
      const unsigned other = ptx::shuffle_xor(upper ? words[i] : words[i + bit], bit);
      (upper ? words[i] : words[i + bit]) = other;
    }
  }
}

/// The same where no other warp holds a part of a warp's rows: each warp writes its own, straight
/// from its registers, and waits for no other.
template <class Config, class Loop>
class WarpEpilogue {
 public:
  using Output = typename Config::Output;

  TRENCADIS_DEVICE WarpEpilogue(const Loop& loop, const Destination& to)
      : loop_(loop),
        final_(loop.launch().params, loop.launch().variant),
        block_(loop.block()),
        to_(to) {}

  TRENCADIS_DEVICE void run() const {
#pragma unroll
    for (int r = 0; r < Loop::kThreadRows; ++r) {
      const float sum = sum_of_quad(loop_.state(r).sum);
      const int tile_row = loop_.thread_row(r);
      const RowEntry row = loop_.row(tile_row);
      RowTotal total{0.0f, 1.0f};
      if constexpr (Config::kUseSoftmax) total = {loop_.state(r).base * loop_.unit(), sum};
      if (to_.is_final())
        write_final(r, tile_row, row, total);
      else if (tile_row < block_.rows)
        write_state(r, tile_row, total);
    }
  }

 private:
  TRENCADIS_DEVICE static bool leads() {
    return ptx::lane_index() % 4 == 0;
  }
  /// What the thread holds of its r-th row in the j-th tile of columns.
  TRENCADIS_DEVICE float value(int r, int j, int c) const {
    return loop_.o[r / 2][j][r % 2 * 2 + c];
  }

  TRENCADIS_DEVICE void write_state(int r, int tile_row, const RowTotal& total) const {
    const float factor = Config::kUseSoftmax ? total.inverse() : 1.0f;
    if (leads())
      final_.params.partial_lse[to_.row(tile_row)] = Config::kUseSoftmax ? total.lse() : 0.0f;
    float* const o = final_.params.partial_o + to_.row(tile_row) * Config::kHeadDimVo;
#pragma unroll
    for (int j = 0; j * 8 < Config::kHeadDimVo; ++j)
      ptx::store_global_8(o + loop_.thread_column(j, 0), value(r, j, 0) * factor,
                          value(r, j, 1) * factor);
  }

  /// All lanes come here: those that share a row exchange what they hold of it.
  TRENCADIS_DEVICE void write_final(int r, int tile_row, const RowEntry& row,
                                    const RowTotal& total) const {
    const bool valid = tile_row < block_.rows;
    const float factor = final_.normaliser(row, total);
    if (valid && leads()) final_.store_lse(block_, row, total);
    const auto output = [&](int j, int c) {
      return final_.transformed(block_, row, loop_.thread_column(j, c), value(r, j, c) * factor);
    };
    constexpr int kTiles = Config::kHeadDimVo / 8;
    constexpr bool kPairs = Element<Output>::kBytes == 2;  // in a word
    constexpr int kRuns = kPairs ? kTiles / 4 * 4 : 0;
    if (final_.aligned()) {
#pragma unroll
      for (int first = 0; first < kRuns; first += 4) {
        unsigned words[4];
#pragma unroll
        for (int j = 0; j < 4; ++j)
          if constexpr (kPairs)
            words[j] = ptx::pack<Output>(output(first + j, 0), output(first + j, 1));
        gather_tile(words);
        const int column = (first + ptx::lane_index() % 4) * 8;
        if (valid)
          ptx::store_global_16(final_.place(block_, row, column),
                               {words[0], words[1], words[2], words[3]});
      }
      if (valid) write_pairs<kRuns, kTiles>(row, output);
    } else if (valid) {
      write_elements<kTiles>(row, output);
    }
  }

  template <int kFirst, int kEnd, class Values>
  TRENCADIS_DEVICE void write_pairs(const RowEntry& row, Values output) const {
#pragma unroll
    for (int j = kFirst; j < kEnd; ++j) {
      char* const to = final_.place(block_, row, loop_.thread_column(j, 0));
      if constexpr (Element<Output>::kBytes == 2)
        *reinterpret_cast<unsigned*>(to) = ptx::pack<Output>(output(j, 0), output(j, 1));
      else
        ptx::store_global_8(reinterpret_cast<float*>(to), output(j, 0), output(j, 1));
    }
  }
  template <int kEnd, class Values>
  TRENCADIS_DEVICE void write_elements(const RowEntry& row, Values output) const {
#pragma unroll
    for (int j = 0; j < kEnd; ++j)
#pragma unroll
      for (int c = 0; c < 2; ++c)
        store_element<Output>(final_.place(block_, row, loop_.thread_column(j, c)), output(j, c));
  }

  const Loop& loop_;
  const FinalRow<Config> final_;
  const Block& block_;
  Destination to_;
};

}  // namespace trencadis::collective
