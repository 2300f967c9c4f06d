// Runs of elements as floats: as many as one thread moves at a time between tensors of two types.
#pragma once

#include "cuda/collective/element.h"
#include "cuda/ptx/convert.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/thread.h"

namespace trencadis::collective {

template <class A, class B>
inline constexpr bool kSameType = false;
template <class A>
inline constexpr bool kSameType<A, A> = true;

/// 16 bytes of the narrower type.
template <class From, class To>
inline constexpr int kRunElements = 16 / (Element<From>::kBytes < Element<To>::kBytes
                                              ? Element<From>::kBytes
                                              : Element<To>::kBytes);

/// Whether every row begins at a multiple of 16 bytes: of its base, and of its strides in elements,
/// any one of which may be negative.
template <class Tag, class... Strides>
TRENCADIS_DEVICE bool rows_aligned(const void* data, Strides... strides) {
  const auto offsets = (static_cast<unsigned long long>(strides) | ... | 0ull);
  return (reinterpret_cast<unsigned long long>(data) & 15) == 0 &&
         (offsets * Element<Tag>::kBytes & 15) == 0;
}

template <class Tag>
TRENCADIS_DEVICE const char* element_at(const void* data, long long offset) {
  return static_cast<const char*>(data) + offset * Element<Tag>::kBytes;
}
template <class Tag>
TRENCADIS_DEVICE char* element_at(void* data, long long offset) {
  return static_cast<char*>(data) + offset * Element<Tag>::kBytes;
}

template <class Tag>
TRENCADIS_DEVICE float load_element(const char* from) {
  return Element<Tag>::load(*reinterpret_cast<const typename Element<Tag>::Storage*>(from));
}
template <class Tag>
TRENCADIS_DEVICE void store_element(char* to, float value) {
  *reinterpret_cast<typename Element<Tag>::Storage*>(to) = Element<Tag>::store(value);
}

/// `load_16(address)` reads 16 bytes at a multiple of 16.
template <class Tag, int kCount, class Load>
TRENCADIS_DEVICE void load_run(const char* from, float (&x)[kCount], Load load_16) {
  constexpr int kChunk = FloatChunk<Tag>::kElements;
#pragma unroll
  for (int c = 0; c < kCount / kChunk; ++c) {
    const FloatChunk<Tag> chunk(load_16(from + 16 * c));
#pragma unroll
    for (int i = 0; i < kChunk; ++i) x[c * kChunk + i] = chunk.x[i];
  }
}

template <class Tag, int kCount>
TRENCADIS_DEVICE void store_run(char* to, const float (&x)[kCount]) {
  constexpr int kChunk = FloatChunk<Tag>::kElements;
#pragma unroll
  for (int c = 0; c < kCount / kChunk; ++c) {
    ptx::Bytes16 bytes;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (Element<Tag>::kBytes == 2)
        bytes.w[i] = ptx::pack<Tag>(x[c * kChunk + 2 * i], x[c * kChunk + 2 * i + 1]);
      else
        bytes.w[i] = __builtin_bit_cast(unsigned, x[c * kChunk + i]);
    }
    ptx::store_global_16(to + 16 * c, bytes);
  }
}

}  // namespace trencadis::collective
