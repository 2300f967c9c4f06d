// The public merge: states (O, LSE) of a row and head become one, in the order in which they are
// listed, in float32. Weights and sums are those of the CPU's merge.
#pragma once

#include "contract/merge.h"
#include "cuda/collective/element_run.h"
#include "cuda/collective/row_walk.h"
#include "cuda/collective/softmax.h"
#include "cuda/ptx/math.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/sync.h"
#include "cuda/ptx/thread.h"

namespace trencadis::collective {

/// Where the states of a row lie; three of them, for the three forms of the operator. Each has
/// count(), lse(s) and o<Tag>(s) of state s of the row and head that it was made for.
class OneList {
 public:
  TRENCADIS_DEVICE OneList(const contract::StateList& list, long long first, int count,
                           long long row, int head)
      : list_(list),
        count_(count),
        o_(first * list.o_stride_state + row * list.o_stride_row + head * list.o_stride_head),
        lse_(list.lse + first * list.lse_stride_state + row * list.lse_stride_row +
             head * list.lse_stride_head) {}

  TRENCADIS_DEVICE int count() const { return count_; }
  TRENCADIS_DEVICE float lse(int s) const { return lse_[s * list_.lse_stride_state]; }
  template <class Tag>
  TRENCADIS_DEVICE const char* o(int s) const {
    return element_at<Tag>(list_.o, o_ + s * list_.o_stride_state);
  }

 private:
  const contract::StateList& list_;
  int count_;
  long long o_;
  const float* lse_;
};

/// n-way.
struct StackedStates : OneList {
  TRENCADIS_DEVICE StackedStates(const contract::MergeStatesParams& p, long long row, int head)
      : OneList(p.first, 0, p.num_states, row, head) {}
};

struct RaggedStates : OneList {
  TRENCADIS_DEVICE RaggedStates(const contract::MergeStatesParams& p, long long row, int head)
      : OneList(p.first, p.indptr[row], p.indptr[row + 1] - p.indptr[row], 0, head) {}
};

/// Two-way. The count is a constant, and loops over it unroll.
class PairOfStates {
 public:
  TRENCADIS_DEVICE PairOfStates(const contract::MergeStatesParams& p, long long row, int head)
      : first_(p.first, 0, 1, row, head), second_(p.second, 0, 1, row, head) {}

  TRENCADIS_DEVICE static constexpr int count() { return 2; }
  TRENCADIS_DEVICE float lse(int s) const { return s == 0 ? first_.lse(0) : second_.lse(0); }
  template <class Tag>
  TRENCADIS_DEVICE const char* o(int s) const {
    return s == 0 ? first_.o<Tag>(0) : second_.o<Tag>(0);
  }

 private:
  OneList first_, second_;
};

/// The denominator of a merge: sum of 2^(scale (lse - largest)).
struct MergeTotal {
  float scale;  // from the operands' LSE to base 2
  float largest = negative_infinity();
  float sum = 0.0f;

  /// Of a state that is not empty. The difference comes first: LSE of tens of thousands would lose
  /// to the multiplication what the difference needs.
  TRENCADIS_DEVICE float weight(float lse) const {
    return ptx::exp2_approx((lse - largest) * scale);
  }
  /// The largest state alone has weight 1, so a sum of 0 says that there is none.
  TRENCADIS_DEVICE float normaliser() const { return sum == 0.0f ? 0.0f : 1.0f / sum; }
  TRENCADIS_DEVICE float lse(bool base_two) const {
    if (sum == 0.0f) return negative_infinity();
    const bool same_base = base_two == (scale == 1.0f);
    return (same_base ? largest : largest * (base_two ? kLog2E : kLn2)) +
           ptx::log2_approx(sum) * (base_two ? 1.0f : kLn2);
  }
};

template <class States>
TRENCADIS_DEVICE MergeTotal total_of(const States& states, bool base_two) {
  MergeTotal total{.scale = base_two ? 1.0f : kLog2E};
  for (int s = 0; s < states.count(); ++s) total.largest = fmaxf(total.largest, states.lse(s));
  for (int s = 0; s < states.count(); ++s)
    if (states.lse(s) != negative_infinity()) total.sum += total.weight(states.lse(s));
  return total;
}

/// The operands may be the output: they are read as memory that this kernel writes, and each
/// element before it is written.
template <class In, int kCount>
TRENCADIS_DEVICE void load_operand(const char* from, float (&x)[kCount]) {
  if constexpr (kCount == 1)
    x[0] = load_element<In>(from);
  else
    load_run<In>(from, x, [](const char* at) { return ptx::load_global_16_written(at); });
}

/// Elements d .. d + kCount of the merged row.
template <class In, class Out, int kCount, class States>
TRENCADIS_DEVICE void merge_elements(const States& states, const MergeTotal& total, int d,
                                     char* out) {
  float sum[kCount] = {};
  for (int s = 0; s < states.count(); ++s) {
    const float lse = states.lse(s);
    if (lse == negative_infinity()) continue;  // whatever its o holds
    const float weight = total.weight(lse);
    float x[kCount];
    load_operand<In>(states.template o<In>(s) + d * Element<In>::kBytes, x);
#pragma unroll
    for (int i = 0; i < kCount; ++i) sum[i] += weight * x[i];
  }
  const float normaliser = total.normaliser();
#pragma unroll
  for (float& value : sum) value *= normaliser;
  if constexpr (kCount == 1)
    store_element<Out>(out + d * Element<Out>::kBytes, sum[0]);
  else
    store_run<Out>(out + d * Element<Out>::kBytes, sum);
}

template <class In, class Out>
TRENCADIS_DEVICE bool merges_in_runs(const contract::MergeStatesParams& p) {
  const auto aligned = [](const contract::StateList& list) {
    return rows_aligned<In>(list.o, list.o_stride_state, list.o_stride_row, list.o_stride_head);
  };
  return p.head_dim % kRunElements<In, Out> == 0 && aligned(p.first) && aligned(p.second) &&
         rows_aligned<Out>(p.out, p.out_stride_row, p.out_stride_head);
}

/// For every row and head; a group of lanes each. States: one of the three forms.
template <class In, class Out, class States>
TRENCADIS_DEVICE void merge_states(const contract::MergeStatesParams& p) {
  ptx::wait_for_dependencies();
  constexpr int kRun = kRunElements<In, Out>;
  const bool in_runs = merges_in_runs<In, Out>(p);
  const LaneGroup lanes = LaneGroup::of((p.head_dim + kRun - 1) / kRun);
  const long long rows = count_of(p.num_rows, p.rows);
  for (RowWalk walk(p.num_heads, lanes); walk.in(rows); walk.next()) {
    const long long row = walk.outer();
    const int head = walk.inner();
    float lse = 0.0f;
    if (row < rows) {
      const States states(p, row, head);
      const MergeTotal total = total_of(states, p.lse_base_two != 0);
      char* out = element_at<Out>(p.out, row * p.out_stride_row + head * p.out_stride_head);
      if (in_runs)
        for (int d = lanes.lane * kRun; d < p.head_dim; d += lanes.width * kRun)
          merge_elements<In, Out, kRun>(states, total, d, out);
      else
        for (int d = lanes.lane; d < p.head_dim; d += lanes.width)
          merge_elements<In, Out, 1>(states, total, d, out);
      lse = total.lse(p.out_lse_base_two != 0);
    }
    ptx::sync_warp();  // all have read the operands' LSE, where the result's may go
    if (row < rows && lanes.lane == 0 && p.out_lse != nullptr)
      p.out_lse[row * p.out_lse_stride_row + head * p.out_lse_stride_head] = lse;
  }
}

}  // namespace trencadis::collective
