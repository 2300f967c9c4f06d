#include "serving/host_tensor.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <new>
#include <numeric>
#include <random>
#include <string>

#include "output/failure.h"

namespace trencadis::app {
namespace {

constexpr std::align_val_t kAlignment{64};

/// Bytes that can be had without swapping; a huge number where the system does not say.
std::int64_t available_memory() {
  std::ifstream info("/proc/meminfo");
  for (std::string key, unit; info >> key;) {
    std::int64_t kib = 0;
    if (key == "MemAvailable:" && info >> kib) return kib * 1024;
    std::getline(info, unit);
  }
  return INT64_MAX;
}

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);  // nearest even
}

float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// For |value| below 65,520.
std::uint16_t to_f16(float value) {
  const float magnitude = std::fabs(value);
  const int exponent = magnitude < 0x1p-14f ? -14 : std::ilogb(magnitude);
  const auto mantissa = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  // A mantissa that rounds up to the next power of two carries into the exponent as it should.
  const int bits = ((exponent + 15 - 1) << 10) + mantissa;
  return static_cast<std::uint16_t>(bits | (std::signbit(value) ? 0x8000 : 0));
}

float from_f16(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1F;
  const int mantissa = bits & 0x3FF;
  float magnitude = 0.0f;
  if (exponent == 0x1F)
    magnitude = mantissa == 0 ? INFINITY : NAN;
  else if (exponent == 0)
    magnitude = std::ldexp(static_cast<float>(mantissa), -24);
  else
    magnitude = std::ldexp(static_cast<float>(mantissa | 0x400), exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

}  // namespace

void HostTensor::Free::operator()(std::byte* bytes) const {
  ::operator delete[](bytes, kAlignment);
}

HostTensor::HostTensor(const char* what, DType dtype, std::initializer_list<std::int64_t> shape) {
  const double bytes = std::accumulate(shape.begin(), shape.end(),
                                       static_cast<double>(size_of(dtype)), std::multiplies<>());
  const std::int64_t available = available_memory();
  if (bytes > static_cast<double>(available))
    fail(ErrorKind::out_of_capacity,
         "{} needs {:.1f} GiB and this machine has {:.1f} GiB free; lower --pool-tokens, --layers "
         "or --max-batch",
         what, bytes / 0x1p30, static_cast<double>(available) / 0x1p30);
  const auto size = static_cast<std::size_t>(bytes);
  bytes_.reset(static_cast<std::byte*>(::operator new[](size, kAlignment)));
  std::memset(bytes_.get(), 0xFF, size);
  view_ = TensorView(bytes_.get(), dtype, shape);
}

void fill_normal(const TensorView& tensor, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  const std::int64_t count = tensor.num_elements();
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = normal(random);
    if (tensor.dtype() == DType::f32)
      tensor.data_as<float>()[i] = value;
    else
      tensor.data_as<std::uint16_t>()[i] =
          tensor.dtype() == DType::bf16 ? to_bf16(value) : to_f16(value);
  }
}

float load_element(const void* data, DType dtype, std::int64_t index) {
  if (dtype == DType::f32) return static_cast<const float*>(data)[index];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(data)[index];
  return dtype == DType::bf16 ? from_bf16(bits) : from_f16(bits);
}

double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return 0x1p-8;
    case DType::f16:
      return 0x1p-11;
    default:
      return 0x1p-24;
  }
}

}  // namespace trencadis::app
