// Host arrays of indices, 32 or 64 bits wide, never reinterpreted as one another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace trencadis {

class IndexSpan {
 public:
  IndexSpan() = default;
  IndexSpan(std::span<const std::int32_t> values)  // NOLINT(google-explicit-constructor)
      : data_(values.data()), size_(values.size()), wide_(false) {}
  IndexSpan(std::span<const std::int64_t> values)  // NOLINT(google-explicit-constructor)
      : data_(values.data()), size_(values.size()), wide_(true) {}
  IndexSpan(const std::vector<std::int32_t>& values)  // NOLINT(google-explicit-constructor)
      : IndexSpan(std::span<const std::int32_t>(values)) {}
  IndexSpan(const std::vector<std::int64_t>& values)  // NOLINT(google-explicit-constructor)
      : IndexSpan(std::span<const std::int64_t>(values)) {}

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  /// True where the elements are int64.
  bool wide() const noexcept { return wide_; }
  std::int64_t operator[](std::size_t i) const noexcept {
    return wide_ ? static_cast<const std::int64_t*>(data_)[i]
                 : static_cast<const std::int32_t*>(data_)[i];
  }
  /// The elements where they are int32; an empty span where they are int64.
  std::span<const std::int32_t> narrow() const noexcept {
    if (wide_) return {};
    return {static_cast<const std::int32_t*>(data_), size_};
  }

 private:
  const void* data_ = nullptr;
  std::size_t size_ = 0;
  bool wide_ = false;
};

}  // namespace trencadis
