// Elements of tensors as kernels meet them: 16-bit floats by their tags, and float.
#pragma once

#include "cuda/ptx/convert.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/thread.h"

namespace trencadis::collective {

template <class Tag>
struct Element {
  using Storage = unsigned short;
  static constexpr int kBytes = 2;
  TRENCADIS_DEVICE static float load(Storage bits) { return ptx::to_float<Tag>(bits); }
  TRENCADIS_DEVICE static Storage store(float value) { return ptx::from_float<Tag>(value); }
};
template <>
struct Element<float> {
  using Storage = float;
  static constexpr int kBytes = 4;
  TRENCADIS_DEVICE static float load(float value) { return value; }
  TRENCADIS_DEVICE static float store(float value) { return value; }
};

/// 16 bytes at any address that suits an element.
template <class Tag>
TRENCADIS_DEVICE ptx::Bytes16 load_elements_16(const char* from) {
  constexpr int kElements = 16 / Element<Tag>::kBytes;
  using Storage = typename Element<Tag>::Storage;
  struct alignas(16) Chunk {
    Storage elements[kElements];
  } chunk;
  for (int i = 0; i < kElements; ++i) chunk.elements[i] = reinterpret_cast<const Storage*>(from)[i];
  return __builtin_bit_cast(ptx::Bytes16, chunk);
}

/// The elements of a chunk as floats.
template <class Tag>
struct FloatChunk {
  static constexpr int kElements = 16 / Element<Tag>::kBytes;
  float x[kElements];

  TRENCADIS_DEVICE explicit FloatChunk(const ptx::Bytes16& bytes) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (Element<Tag>::kBytes == 2) {
        x[2 * i] = ptx::unpack_low<Tag>(bytes.w[i]);
        x[2 * i + 1] = ptx::unpack_high<Tag>(bytes.w[i]);
      } else {
        x[i] = __builtin_bit_cast(float, bytes.w[i]);
      }
    }
  }
};

}  // namespace trencadis::collective
