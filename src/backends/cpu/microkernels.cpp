#include "backends/cpu/microkernels.h"

// The kernels hold registers in arrays, which SVE's vectors of unknown size cannot be; NEON serves
// those machines.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#include <hwy/targets.h>

#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/microkernels.cpp"
#include <hwy/foreach_target.h>  // compiles what follows once for each instruction set
// After foreach_target.
#include <hwy/highway.h>

#include "cpu/gemm-inl.h"
#include "cpu/rows-inl.h"
#include "cpu/stream-inl.h"
#include "cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trencadis::cpu::HWY_NAMESPACE {

// Entries follow the order of contract::Storage: f32, f16, bf16.
const Microkernels* Table() {
  static const Microkernels table{
      .target = hwy::TargetName(HWY_TARGET),
      .lanes = kLanes,
      .panel_width = kPanelWidth,
      .dim_multiple = kDimMultiple,
      .load_row = {&LoadRow<F32>, &LoadRow<F16>, &LoadRow<BF16>},
      .store_row = {&StoreRow<F32>, &StoreRow<F16>, &StoreRow<BF16>},
      .to_load_order = {&ToLoadOrder<F32>, &ToLoadOrder<F16>, &ToLoadOrder<BF16>},
      .from_load_order = {&FromLoadOrder<F32>, &FromLoadOrder<F16>, &FromLoadOrder<BF16>},
      .score = {&Score<F32>, &Score<F16>, &Score<BF16>},
      .accumulate = {&Accumulate<F32>, &Accumulate<F16>, &Accumulate<BF16>},
      .pack_keys = {&PackKeys<F32>, &PackKeys<F16>, &PackKeys<BF16>},
      .pack_values = {&PackValues<F32>, &PackValues<F16>, &PackValues<BF16>},
      .gemm = &Gemm,
      .softmax = &Softmax,
      .scale = &Scale,
      .divide = &Divide,
      .add_scaled = &AddScaled,
  };
  return &table;
}

}  // namespace trencadis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trencadis::cpu {
namespace {

struct CompiledTable {
  std::int64_t target;
  const Microkernels* (*table)();
};

// Best first.
constexpr CompiledTable kCompiled[] = {
#if HWY_TARGETS & HWY_AVX3
    {HWY_AVX3, &N_AVX3::Table},
#endif
#if HWY_TARGETS & HWY_AVX2
    {HWY_AVX2, &N_AVX2::Table},
#endif
#if HWY_TARGETS & HWY_SSE4
    {HWY_SSE4, &N_SSE4::Table},
#endif
#if HWY_TARGETS & HWY_NEON
    {HWY_NEON, &N_NEON::Table},
#endif
};

std::vector<const Microkernels*> find_supported() {
  std::vector<const Microkernels*> found;
  const std::int64_t supported = hwy::SupportedTargets();
  for (const CompiledTable& compiled : kCompiled)
    if ((supported & compiled.target) != 0) found.push_back(compiled.table());
  return found;
}

}  // namespace

std::span<const Microkernels* const> supported_microkernels() {
  static const std::vector<const Microkernels*> tables = find_supported();
  return tables;
}

}  // namespace trencadis::cpu
#endif
