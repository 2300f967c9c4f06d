#include "support/host_tensor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/float16.h"

namespace trencadis::testing {
namespace {

double load(DType dtype, const std::byte* at) {
  const auto as = [at]<class T>(T value) {
    std::memcpy(&value, at, sizeof(value));
    return value;
  };
  switch (dtype) {
    case DType::f32:
      return as(float{});
    case DType::f16:
      return base::f16_to_float(as(std::uint16_t{}));
    case DType::bf16:
      return base::bf16_to_float(as(std::uint16_t{}));
    case DType::f64:
      return as(double{});
    case DType::i32:
      return as(std::int32_t{});
    case DType::i64:
      return static_cast<double>(as(std::int64_t{}));
    case DType::u8:
      return as(std::uint8_t{});
  }
  return kNan;
}

void store(DType dtype, std::byte* at, double value) {
  const auto put = [at](auto typed) { std::memcpy(at, &typed, sizeof(typed)); };
  const double whole = std::isfinite(value) ? value : 0.0;
  switch (dtype) {
    case DType::f32:
      return put(static_cast<float>(value));
    case DType::f16:
      return put(base::float_to_f16(static_cast<float>(value)));
    case DType::bf16:
      return put(base::float_to_bf16(static_cast<float>(value)));
    case DType::f64:
      return put(value);
    case DType::i32:
      return put(static_cast<std::int32_t>(whole));
    case DType::i64:
      return put(static_cast<std::int64_t>(whole));
    case DType::u8:
      return put(static_cast<std::uint8_t>(whole));
  }
}

std::int64_t offset(const TensorView& view, std::initializer_list<std::int64_t> index) {
  std::int64_t elements = 0;
  int dim = 0;
  for (const std::int64_t i : index) elements += i * view.stride(dim++);
  return elements * size_of(view.dtype());
}

}  // namespace

double get(const TensorView& view, std::initializer_list<std::int64_t> index) {
  return load(view.dtype(), static_cast<const std::byte*>(view.data()) + offset(view, index));
}

void set(const TensorView& view, std::initializer_list<std::int64_t> index, double value) {
  store(view.dtype(), static_cast<std::byte*>(view.data()) + offset(view, index), value);
}

void for_each_element(const TensorView& view, const std::function<void(std::int64_t)>& visit) {
  const std::int64_t count = view.num_elements();
  std::array<std::int64_t, TensorView::kMaxRank> index{};
  std::int64_t elements = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    visit(elements * size_of(view.dtype()));
    for (int dim = view.rank() - 1; dim >= 0; --dim) {
      std::int64_t& at = index[static_cast<std::size_t>(dim)];
      elements += view.stride(dim);
      if (++at < view.size(dim)) break;
      elements -= at * view.stride(dim);
      at = 0;
    }
  }
}

std::vector<double> to_doubles(const TensorView& view) {
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(view.num_elements()));
  for_each_element(view, [&](std::int64_t at) {
    values.push_back(load(view.dtype(), static_cast<const std::byte*>(view.data()) + at));
  });
  return values;
}

void fill(const TensorView& view, const std::function<double()>& generate) {
  for_each_element(view, [&](std::int64_t at) {
    store(view.dtype(), static_cast<std::byte*>(view.data()) + at, generate());
  });
}

void fill(const TensorView& view, double value) {
  fill(view, [value] { return value; });
}

HostTensor::HostTensor(const HostTensor& other)
    : storage_(other.storage_),
      whole_(storage_.data(), other.whole_.dtype(), other.whole_.shape(), other.whole_.strides()) {}

HostTensor::HostTensor(DType dtype, std::vector<std::int64_t> shape, double value) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  // An empty tensor still has an address, as an allocator would give it.
  storage_.resize(static_cast<std::size_t>(std::max<std::int64_t>(count, 1) * size_of(dtype)));
  whole_ = TensorView(storage_.data(), dtype, shape);
  // Pools are large: what is there already is copied behind itself.
  store(dtype, storage_.data(), value);
  for (std::size_t done = static_cast<std::size_t>(size_of(dtype)); done < storage_.size();) {
    const std::size_t bytes = std::min(done, storage_.size() - done);
    std::memcpy(storage_.data() + done, storage_.data(), bytes);
    done += bytes;
  }
}

}  // namespace trencadis::testing
