// Weights and sums are float32, as in the kernels.
#include "backends/cpu/merge.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>
#include <vector>

#include "backends/cpu/host_tensor.h"
#include "base/check.h"

namespace trencadis::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float& lse_at(const TensorView& lse, std::int64_t i, std::int64_t j, std::int64_t l = 0) {
  return *reinterpret_cast<float*>(at(lse, i, j, l));
}

/// One state of one (row, head): a row of the operands' tensor at `o`.
struct State {
  const TensorView* tensor;
  const void* o;
  float lse;
};

/// Merges the states of a row. Buffers are kept from row to row.
class RowMerger {
 public:
  RowMerger(const TensorView& out, const TensorView& out_lse, const MergeOptions& options)
      : out_(out),
        out_lse_(out_lse),
        base_two_(options.base == LseBase::two),
        out_base_two_(options.out_base.value_or(options.base) == LseBase::two),
        term_(static_cast<std::size_t>(out.size(2))),
        sum_(term_.size()) {}

  /// Row i and head h of the result. visit(add) calls add(State) for each operand. All are read
  /// before anything is written, so the result may be one of them.
  template <class Visit>
  void merge(std::int64_t i, std::int64_t h, Visit visit) {
    states_.clear();
    visit([&](const State& state) { states_.push_back(state); });
    const float lse = sum_up();
    store_row(out_, sum_, at(out_, i, h));
    if (out_lse_.defined()) lse_at(out_lse_, i, h) = lse;
  }

 private:
  float sum_up() {
    float largest = -kInfinity;
    for (const State& state : states_) largest = std::max(largest, state.lse);
    std::fill(sum_.begin(), sum_.end(), 0.0f);
    float total = 0.0f;
    for (const State& state : states_) {
      if (state.lse == -kInfinity) continue;  // whatever its o holds
      const float weight =
          base_two_ ? std::exp2(state.lse - largest) : std::exp(state.lse - largest);
      total += weight;
      load_row(*state.tensor, state.o, term_);
      for (std::size_t d = 0; d < sum_.size(); ++d) sum_[d] += weight * term_[d];
    }
    if (total == 0.0f) return -kInfinity;
    for (float& value : sum_) value /= total;
    return in_out_base(largest) + (out_base_two_ ? std::log2(total) : std::log(total));
  }

  float in_out_base(float lse) const {
    if (base_two_ == out_base_two_) return lse;
    return lse * (out_base_two_ ? std::numbers::log2e_v<float> : std::numbers::ln2_v<float>);
  }

  const TensorView& out_;
  const TensorView& out_lse_;
  bool base_two_, out_base_two_;
  std::vector<float> term_, sum_;
  std::vector<State> states_;
};

}  // namespace

std::int64_t rows_to_merge(const MergeOptions& options, std::int64_t n) {
  return count_of("num_rows", options.num_rows, n);
}

void merge_states(const TensorView& o_a, const TensorView& lse_a, const TensorView& o_b,
                  const TensorView& lse_b, const TensorView& out, const TensorView& out_lse,
                  const MergeOptions& options) {
  RowMerger merger(out, out_lse, options);
  const std::int64_t rows = rows_to_merge(options, out.size(0));
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t h = 0; h < out.size(1); ++h)
      merger.merge(i, h, [&](const auto& add) {
        add(State{&o_a, at(o_a, i, h), lse_at(lse_a, i, h)});
        add(State{&o_b, at(o_b, i, h), lse_at(lse_b, i, h)});
      });
}

void merge_states(const TensorView& o, const TensorView& lse, const TensorView& out,
                  const TensorView& out_lse, const MergeOptions& options) {
  RowMerger merger(out, out_lse, options);
  const std::int64_t rows = rows_to_merge(options, out.size(0));
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t h = 0; h < out.size(1); ++h)
      merger.merge(i, h, [&](const auto& add) {
        for (std::int64_t s = 0; s < o.size(0); ++s)
          add(State{&o, at(o, s, i, h), lse_at(lse, s, i, h)});
      });
}

void merge_states_ragged(const TensorView& o, const TensorView& lse, IndexSpan indptr,
                         const TensorView& out, const TensorView& out_lse,
                         const MergeOptions& options) {
  const std::int64_t rows = rows_to_merge(options, out.size(0));
  std::int64_t before = 0;
  for (std::size_t i = 0; i <= static_cast<std::size_t>(rows); ++i) {
    base::check(indptr[i] >= before && indptr[i] <= o.size(0),
                "indptr[{}] is {}, expected {} to the {} states of o", i, indptr[i], before,
                o.size(0));
    before = indptr[i];
  }
  RowMerger merger(out, out_lse, options);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t h = 0; h < out.size(1); ++h)
      merger.merge(i, h, [&](const auto& add) {
        const auto row = static_cast<std::size_t>(i);
        for (std::int64_t s = indptr[row]; s < indptr[row + 1]; ++s)
          add(State{&o, at(o, s, h), lse_at(lse, s, h)});
      });
}

}  // namespace trencadis::cpu
