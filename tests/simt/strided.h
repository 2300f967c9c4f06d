// Tensors of any strides for kernels that run emulated: every element that is not set is 0xff
// bytes, NaN in every format, and so is the memory before, between and behind.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <type_traits>
#include <vector>

#include "base/float16.h"
#include "cuda/collective/element.h"

namespace trencadis::simt {

/// Bits of an element by the library's own conversions.
template <class Tag>
struct Codec {
  static std::uint16_t bits(double value) {
    const auto single = static_cast<float>(value);
    return std::is_same_v<Tag, ptx::Half> ? base::float_to_f16(single)
                                          : base::float_to_bf16(single);
  }
  static double value(std::uint16_t bits) {
    return std::is_same_v<Tag, ptx::Half> ? base::f16_to_float(bits) : base::bf16_to_float(bits);
  }
  static constexpr double kStep = std::is_same_v<Tag, ptx::Half> ? 0x1p-11 : 0x1p-8;
  static constexpr double kLargest = std::is_same_v<Tag, ptx::Half> ? 65504.0 : 0x1.FEp127;
};
template <>
struct Codec<float> {
  static float bits(double value) { return static_cast<float>(value); }
  static double value(float bits) { return bits; }
  static constexpr double kStep = 0x1p-24;
  static constexpr double kLargest = std::numeric_limits<float>::max();
};

using Index = std::vector<std::int64_t>;

/// Where elements of a tensor lie: row-major in the order of `order` (outermost first), with
/// `padding` elements behind each innermost row and `shift` before all.
struct Layout {
  std::vector<int> order = {};  // empty: as they come
  std::int64_t padding = 0;
  std::int64_t shift = 0;
};

template <class Tag>
class Strided {
 public:
  using Storage = typename collective::Element<Tag>::Storage;

  explicit Strided(Index shape, const Layout& layout = {})
      : shape_(std::move(shape)), strides_(shape_.size(), 1), shift_(kGuard + layout.shift) {
    std::vector<int> order = layout.order;
    if (order.empty()) {
      order.resize(shape_.size());
      std::iota(order.begin(), order.end(), 0);
    }
    std::int64_t stride = 1;
    for (std::size_t i = order.size(); i-- > 0;) {
      const auto dim = static_cast<std::size_t>(order[i]);
      strides_[dim] = stride;
      stride *= shape_[dim];
      if (i + 1 == order.size()) stride += layout.padding;
    }
    elements_ = shift_ + stride + kGuard;
    memory_.resize(static_cast<std::size_t>(elements_) * sizeof(Storage) / sizeof(Line) + 1);
    std::memset(memory_.data(), 0xff, memory_.size() * sizeof(Line));
  }

  Storage* data() { return base() + shift_; }
  std::int64_t stride(int dim) const { return strides_[static_cast<std::size_t>(dim)]; }
  std::int64_t size(int dim) const { return shape_[static_cast<std::size_t>(dim)]; }
  std::int64_t elements() const { return elements_; }  // of the memory

  double get(const Index& index) const { return Codec<Tag>::value(base()[offset(index)]); }
  void set(const Index& index, double value) { base()[offset(index)] = Codec<Tag>::bits(value); }

  /// Every element, uniform in [-2, 2).
  void fill(std::mt19937& random) {
    std::uniform_real_distribution<double> uniform(-2, 2);
    Index index(shape_.size(), 0);
    const auto count =
        std::accumulate(shape_.begin(), shape_.end(), std::int64_t{1}, std::multiplies<>());
    for (std::int64_t i = 0; i < count; ++i) {
      set(index, uniform(random));
      for (std::size_t d = shape_.size(); d-- > 0 && ++index[d] == shape_[d];) index[d] = 0;
    }
  }

  /// Of the whole memory: what is NaN in `expected` has the same bits, all else is within
  /// `steps` roundings of it, relative to 1 or to the value.
  ::testing::AssertionResult matches(const Strided& expected, double steps = 0) const {
    for (std::int64_t i = 0; i < elements_; ++i) {
      const Storage mine = base()[i];
      const Storage theirs = expected.base()[i];
      if (std::memcmp(&mine, &theirs, sizeof mine) == 0) continue;
      const double value = Codec<Tag>::value(mine);
      const double wanted = Codec<Tag>::value(theirs);
      const double tolerance = steps * Codec<Tag>::kStep * std::fmax(1.0, std::fabs(wanted));
      if (!(std::fabs(value - wanted) <= tolerance))
        return ::testing::AssertionFailure()
               << "element " << i - shift_ << " of memory is " << value << ", expected " << wanted;
    }
    return ::testing::AssertionSuccess();
  }

 private:
  static constexpr std::int64_t kGuard = 64;
  struct alignas(16) Line {
    unsigned char bytes[16];
  };

  std::int64_t offset(const Index& index) const {
    return std::inner_product(index.begin(), index.end(), strides_.begin(), shift_);
  }
  Storage* base() { return reinterpret_cast<Storage*>(memory_.data()); }
  const Storage* base() const { return reinterpret_cast<const Storage*>(memory_.data()); }

  Index shape_, strides_;
  std::int64_t shift_;
  std::int64_t elements_ = 0;
  std::vector<Line> memory_;
};

}  // namespace trencadis::simt
