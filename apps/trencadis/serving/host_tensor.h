// Tensors that own their memory, and the conversions between float and storage types that filling
// and comparing them needs.
#pragma once

#include <trencadis/tensor_view.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace trencadis::app {

class HostTensor {
 public:
  HostTensor() = default;
  /// Row-major, aligned to cache lines, every byte 0xFF: NaN in each floating type. Throws
  /// Error(out_of_capacity) where the machine has not that much memory; `what` names the tensor.
  HostTensor(const char* what, DType dtype, std::initializer_list<std::int64_t> shape);

  const TensorView& view() const { return view_; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const;
  };
  std::unique_ptr<std::byte[], Free> bytes_;
  TensorView view_;
};

/// Fills a contiguous f32, f16 or bf16 tensor with normal deviates, mean 0 and variance 1, the same
/// for the same seed.
void fill_normal(const TensorView& tensor, std::uint64_t seed);

/// Element `index` of f32, f16 or bf16 storage.
float load_element(const void* data, DType dtype, std::int64_t index);

/// Half the distance between neighbours at 1: the relative error of rounding to the type.
double unit_roundoff(DType dtype);

}  // namespace trencadis::app
