// Rows of keys and values from one tensor to another, by the lanes of a group.
#pragma once

#include "cuda/collective/element.h"
#include "cuda/collective/element_run.h"
#include "cuda/collective/row_walk.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/thread.h"

namespace trencadis::collective {

template <class Tag>
inline constexpr float kLargestFinite = 3.40282347e+38f;
template <>
inline constexpr float kLargestFinite<ptx::Half> = 65504.0f;
template <>
inline constexpr float kLargestFinite<ptx::BFloat> = 3.38953139e+38f;

/// The value that a conversion to Tag, which saturates, rounds. A NaN fails both comparisons and
/// stays one.
template <class Tag>
TRENCADIS_DEVICE float saturated(float value) {
  constexpr float kLargest = kLargestFinite<Tag>;
  return value > kLargest ? kLargest : value < -kLargest ? -kLargest : value;
}

/// Elements [begin, dim) of a row. Values of one type keep their bits; conversions saturate.
template <class From, class To>
struct RowCopy {
  /// Both rows begin at multiples of 16 bytes and are whole runs.
  bool in_runs;

  static constexpr int kRun = kRunElements<From, To>;

  TRENCADIS_DEVICE void copy(const char* from, char* to, int begin, int dim,
                             const LaneGroup& lanes) const {
    if (in_runs && begin % kRun == 0) {
      for (int d = begin + lanes.lane * kRun; d < dim; d += lanes.width * kRun)
        copy_run(from + d * Element<From>::kBytes, to + d * Element<To>::kBytes);
    } else {
      for (int d = begin + lanes.lane; d < dim; d += lanes.width)
        copy_element(from + d * Element<From>::kBytes, to + d * Element<To>::kBytes);
    }
  }

 private:
  TRENCADIS_DEVICE static void copy_run(const char* from, char* to) {
    if constexpr (kSameType<From, To>) {
      ptx::store_global_16(to, ptx::load_global_16(from));
    } else {
      float x[kRun];
      load_run<From>(from, x, [](const char* at) { return ptx::load_global_16(at); });
#pragma unroll
      for (float& value : x) value = saturated<To>(value);
      store_run<To>(to, x);
    }
  }
  TRENCADIS_DEVICE static void copy_element(const char* from, char* to) {
    if constexpr (kSameType<From, To>) {
      using Storage = typename Element<From>::Storage;
      *reinterpret_cast<Storage*>(to) = *reinterpret_cast<const Storage*>(from);
    } else {
      store_element<To>(to, saturated<To>(load_element<From>(from)));
    }
  }
};

/// Lanes that the wider of a token's rows keeps busy.
template <class From, class To>
TRENCADIS_DEVICE LaneGroup lanes_for(int head_dim_qk, int head_dim_vo) {
  const int dim = head_dim_qk > head_dim_vo ? head_dim_qk : head_dim_vo;
  return LaneGroup::of((dim + kRunElements<From, To> - 1) / kRunElements<From, To>);
}

}  // namespace trencadis::collective
