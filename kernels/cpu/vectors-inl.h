// Loads, stores and small reductions that the kernels share. Per target: included once for each
// instruction set, inside foreach_target.
#if defined(TRENCADIS_CPU_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRENCADIS_CPU_VECTORS_INL_H_
#undef TRENCADIS_CPU_VECTORS_INL_H_
#else
#define TRENCADIS_CPU_VECTORS_INL_H_
#endif

#include <hwy/highway.h>

#include <bit>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace trencadis::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using F = hn::ScalableTag<float>;
using VF = hn::Vec<F>;
inline constexpr int kLanes = HWY_MAX_BYTES / static_cast<int>(sizeof(float));

/// Elements that one LoadPair reads.
inline constexpr int kPair = 2 * kLanes;

// Storage types, as bits. `bf16` and `f16` are only names for what 16 bits mean.
struct F32 {
  using Bits = float;
};
struct F16 {
  using Bits = std::uint16_t;
};
struct BF16 {
  using Bits = std::uint16_t;
};

struct Pair {
  VF a, b;
};

/// f16 to float. Highway's own conversion takes infinities and NaN for finite numbers where the CPU
/// has no instruction for it; there it is done by scaling, which is exact for subnormals too.
template <class D>
HWY_INLINE hn::Vec<D> PromoteF16(D d, const std::uint16_t* p) {
#if HWY_TARGET == HWY_SSE4
  const hn::RebindToUnsigned<D> d32;
  const hn::Rebind<std::uint16_t, D> d16;
  const auto bits = hn::PromoteTo(d32, hn::LoadU(d16, p));
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(d32, 0x8000u)));
  const auto shifted = hn::ShiftLeft<13>(hn::And(bits, hn::Set(d32, 0x7FFFu)));
  const auto finite = hn::Mul(hn::BitCast(d, shifted), hn::Set(d, 0x1p112f));
  const auto special = hn::Or(hn::BitCast(d32, finite), hn::Set(d32, 0x7F800000u));
  const auto value =
      hn::IfThenElse(hn::Ge(finite, hn::Set(d, 65536.0f)), hn::BitCast(d, special), finite);
  return hn::Or(value, hn::BitCast(d, sign));
#else
  const hn::Rebind<hwy::float16_t, D> dh;
  return hn::PromoteTo(d, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(p)));
#endif
}

// kPair elements as two vectors of floats, in load order: consecutive halves, but for bf16 the even
// and the odd elements.
HWY_INLINE Pair LoadPair(F32, const float* p) {
  const F d;
  return {hn::LoadU(d, p), hn::LoadU(d, p + kLanes)};
}
HWY_INLINE Pair LoadPair(F16, const std::uint16_t* p) {
  return {PromoteF16(F(), p), PromoteF16(F(), p + kLanes)};
}
HWY_INLINE Pair LoadPair(BF16, const std::uint16_t* p) {
  const F d;
  const hn::Repartition<std::uint16_t, F> d16;
  const hn::RebindToUnsigned<F> d32;
  const auto bits = hn::BitCast(d32, hn::LoadU(d16, p));
  return {hn::BitCast(d, hn::ShiftLeft<16>(bits)),
          hn::BitCast(d, hn::And(bits, hn::Set(d32, 0xFFFF0000u)))};
}

// kLanes elements in natural order.
HWY_INLINE VF LoadNatural(F32, const float* p) {
  return hn::LoadU(F(), p);
}
HWY_INLINE VF LoadNatural(F16, const std::uint16_t* p) {
  return PromoteF16(F(), p);
}
HWY_INLINE VF LoadNatural(BF16, const std::uint16_t* p) {
  const hn::Rebind<std::uint16_t, F> d16;
  const hn::RebindToUnsigned<F> d32;
  return hn::BitCast(F(), hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, p))));
}

inline float LoadScalar(F32, const float* p) {
  return *p;
}
inline float LoadScalar(F16, const std::uint16_t* p) {
  const hn::CappedTag<float, 1> d;
  return hn::GetLane(PromoteF16(d, p));
}
inline float LoadScalar(BF16, const std::uint16_t* p) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(*p) << 16);
}

inline void StoreScalar(F32, float value, float* p) {
  *p = value;
}
inline void StoreScalar(BF16, float value, std::uint16_t* p) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  // Rounding could carry a NaN's mantissa into infinity: it is cut instead, and kept non-zero.
  const bool nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
  *p = static_cast<std::uint16_t>(nan ? (bits >> 16) | 0x40u
                                      : (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}
// In integers, because the instruction sets differ: without F16C Highway's conversion truncates.
inline void StoreScalar(F16, float value, std::uint16_t* p) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  std::uint32_t half = 0x7C00u;  // 65520 and beyond round to infinity
  if (magnitude > 0x7F800000u) {
    half = 0x7E00u;
  } else if (magnitude < 0x38800000u) {  // below 2^-14: a multiple of 2^-24, rounded by an addition
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3F000000u;
  } else if (magnitude < 0x477FF000u) {
    half = (magnitude - 0x38000000u + 0xFFFu + ((magnitude >> 13) & 1u)) >> 13;
  }
  *p = static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | half);
}

// Sums of the lanes of four vectors, as four lanes.
template <class D, class V>
HWY_INLINE auto FoldBlocks(D d, V v) {
  if constexpr (HWY_MAX_BYTES > 16 && hn::MaxLanes(D()) > 4) {
    const hn::Half<D> half;
    return FoldBlocks(half, hn::Add(hn::UpperHalf(half, v), hn::LowerHalf(half, v)));
  } else {
    (void)d;
    return v;
  }
}
HWY_INLINE hn::Vec<hn::FixedTag<float, 4>> SumLanes4(VF a, VF b, VF c, VF d) {
  const F f;
  const hn::Repartition<double, F> f64;
  const VF ab = hn::Add(hn::InterleaveLower(f, a, b), hn::InterleaveUpper(f, a, b));
  const VF cd = hn::Add(hn::InterleaveLower(f, c, d), hn::InterleaveUpper(f, c, d));
  const auto ab64 = hn::BitCast(f64, ab);
  const auto cd64 = hn::BitCast(f64, cd);
  const VF sums = hn::Add(hn::BitCast(f, hn::InterleaveLower(f64, ab64, cd64)),
                          hn::BitCast(f, hn::InterleaveUpper(f64, ab64, cd64)));
  return FoldBlocks(f, sums);
}

/// exp(x) for x <= 88, relative error below 2 ulp, exactly 1 at 0 and exactly 0 below -87.3 (the
/// last normal float), -inf included. NaN stays NaN.
HWY_INLINE VF Exp(VF x) {
  const F d;
  const hn::RebindToSigned<F> di;
  // x = n ln2 + r with |r| <= ln2 / 2; ln2 is taken off in two parts, so that r is exact.
  const VF clamped = hn::Max(hn::Set(d, -88.0f), x);  // in this order a NaN comes through
  const VF n = hn::Round(hn::Mul(clamped, hn::Set(d, 1.44269504f)));
  VF r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), clamped);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  // Taylor's series to the seventh power: at |r| = 0.3466 the rest is below 6e-9.
  VF p = hn::Set(d, 1.0f / 5040);
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 720));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 120));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 24));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 6));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5f));
  p = hn::MulAdd(hn::Mul(p, r), r, r);
  p = hn::Add(p, hn::Set(d, 1.0f));
  const auto exponent = hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127)));
  const VF result = hn::Mul(p, hn::BitCast(d, exponent));
  // Below the last normal number: 0. The comparison is false for NaN, which then comes through.
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.3f)), result);
}

}  // namespace trencadis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
