// Views of tensors that somebody else owns: any device, any strides, 64-bit sizes. The exchange
// format is DLPack.
#pragma once

#include <dlpack/dlpack.h>
#include <trencadis/dtype.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace trencadis {

enum class DeviceKind : std::uint8_t { cpu, cuda };

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};

/// "cpu", "cuda:0"
std::string to_string(Device device);

/// A strided view. Shapes and strides are in elements. The view never owns its memory; whoever
/// makes one keeps the memory alive for as long as the call that takes it says.
class TensorView {
 public:
  static constexpr int kMaxRank = 6;

  /// An empty view: rank 0, no data. `defined()` is false.
  TensorView() = default;

  /// Row-major, contiguous. Throws Error(invalid_argument) on rank > 6 or a negative extent.
  TensorView(void* data, DType dtype, std::span<const std::int64_t> shape, Device device = {});
  TensorView(void* data, DType dtype, std::initializer_list<std::int64_t> shape,
             Device device = {});
  /// Any strides (elements, may be zero or negative).
  TensorView(void* data, DType dtype, std::span<const std::int64_t> shape,
             std::span<const std::int64_t> strides, Device device = {});

  /// From DLPack; honours byte_offset and null strides. Throws Error(type_mismatch) for a dtype,
  /// lane count or device that the engine does not know.
  static TensorView from_dlpack(const DLTensor& tensor);
  /// The returned DLTensor points into this view's shape and strides and lives as long as it.
  DLTensor to_dlpack() const;

  bool defined() const noexcept { return data_ != nullptr || rank_ > 0; }
  void* data() const noexcept { return data_; }
  template <class T>
  T* data_as() const noexcept {
    return static_cast<T*>(data_);
  }
  DType dtype() const noexcept { return dtype_; }
  Device device() const noexcept { return device_; }
  int rank() const noexcept { return rank_; }
  std::int64_t size(int dim) const noexcept { return shape_[static_cast<std::size_t>(dim)]; }
  std::int64_t stride(int dim) const noexcept { return strides_[static_cast<std::size_t>(dim)]; }
  std::span<const std::int64_t> shape() const noexcept {
    return {shape_.data(), static_cast<std::size_t>(rank_)};
  }
  std::span<const std::int64_t> strides() const noexcept {
    return {strides_.data(), static_cast<std::size_t>(rank_)};
  }
  std::int64_t num_elements() const noexcept;

  /// Elements [begin, end) of dimension `dim`, sharing memory. Throws Error(invalid_argument).
  TensorView slice(int dim, std::int64_t begin, std::int64_t end) const;
  /// Drops dimension `dim` at `index`. Throws Error(invalid_argument).
  TensorView select(int dim, std::int64_t index) const;

  /// "bfloat16[12, 8, 128] strides [1024, 128, 1] on cpu"
  std::string describe() const;

 private:
  void* data_ = nullptr;
  std::array<std::int64_t, kMaxRank> shape_{};
  std::array<std::int64_t, kMaxRank> strides_{};
  std::int8_t rank_ = 0;
  DType dtype_ = DType::f32;
  Device device_{};
};

}  // namespace trencadis
