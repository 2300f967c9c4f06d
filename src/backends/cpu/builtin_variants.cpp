#include "backends/cpu/builtin_variants.h"

#include <hwy/targets.h>

#include <array>
#include <utility>
#include <vector>

#include "backends/cpu/stock_params.h"
#include "cpu/variant_tiles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/builtin_variants.cpp"
#include <hwy/foreach_target.h>  // compiles what follows once for each instruction set
// After foreach_target.
#include <hwy/highway.h>

// The loops of VariantTiles are inlined into the functions below and so take their instruction set.
HWY_BEFORE_NAMESPACE();
namespace trencadis::cpu::HWY_NAMESPACE {

using contract::VariantArgs;

// Transforms and masks are compiled apart, so that 8 + 8 loops serve 64 combinations.
constexpr codegen::ComponentSet kTransforms =
    codegen::kSoftCap | codegen::kAlibi | codegen::kSigmoid;
constexpr codegen::ComponentSet kMasks =
    codegen::kPackedMask | codegen::kPrefixLm | codegen::kDocumentMask;

template <bool kPresent, class Functor>
using Optional = std::conditional_t<kPresent, variant::Chain<Functor>, variant::Chain<>>;

template <codegen::ComponentSet kSet>
using Stock = variant::Chain<Optional<(kSet & codegen::kSoftCap) != 0, variant::SoftCap>,
                             Optional<(kSet & codegen::kAlibi) != 0, variant::Alibi>,
                             Optional<(kSet & codegen::kSigmoid) != 0, variant::Sigmoid>,
                             Optional<(kSet & codegen::kPackedMask) != 0, variant::PackedMask>,
                             Optional<(kSet & codegen::kPrefixLm) != 0, variant::PrefixLm>,
                             Optional<(kSet & codegen::kDocumentMask) != 0, variant::DocumentMask>>;

using RopeTiles = VariantTiles<variant::Rope, StockParams>;

void RotateQueries(const VariantArgs& args, const TileCoord& tile, float* q, int dim, int stride) {
  RopeTiles::query(args, tile, q, dim, stride);
}

void RotateKeys(const VariantArgs& args, const TileCoord& tile, const int* positions, int keys,
                float* k, int dim, int stride) {
  RopeTiles::key(args, tile, positions, keys, k, dim, stride);
}

template <codegen::ComponentSet kSet>
HWY_NOINLINE void TransformLogits(const VariantArgs& args, const TileCoord& tile,
                                  const int* positions, int keys, float* s, int stride) {
  VariantTiles<Stock<kSet>, StockParams>::transform_logits(args, tile, positions, keys, s, stride);
}

template <codegen::ComponentSet kSet>
HWY_NOINLINE void MaskLogits(const VariantArgs& args, const TileCoord& tile, const int* positions,
                             int keys, float* s, int stride, bool use_softmax) {
  VariantTiles<Stock<kSet>, StockParams>::mask_logits(args, tile, positions, keys, s, stride,
                                                      use_softmax);
}

template <codegen::ComponentSet kSet>
void Logits(const VariantArgs& args, const TileCoord& tile, const int* positions, int keys,
            float* s, int stride, bool use_softmax) {
  if constexpr ((kSet & kTransforms) != 0)
    TransformLogits<kSet & kTransforms>(args, tile, positions, keys, s, stride);
  if constexpr ((kSet & kMasks) != 0)
    MaskLogits<kSet & kMasks>(args, tile, positions, keys, s, stride, use_softmax);
}

template <codegen::ComponentSet kSet>
constexpr VariantOps MakeStockOps() {
  constexpr bool kRotates = (kSet & codegen::kRope) != 0;
  VariantOps ops{.abi = kVariantAbi,
                 .hooks = Stock<kSet>::hooks | (kRotates ? variant::Rope::hooks : 0u),
                 .query = nullptr,
                 .key = nullptr,
                 .value = nullptr,
                 .logits = nullptr,
                 .output = nullptr};
  if constexpr (kRotates) {
    ops.query = &RotateQueries;
    ops.key = &RotateKeys;
  }
  if constexpr ((kSet & (kTransforms | kMasks)) != 0)
    ops.logits = &Logits<kSet&(kTransforms | kMasks)>;
  return ops;
}

template <std::size_t... kSets>
constexpr auto MakeTable(std::index_sequence<kSets...>) {
  return std::array<VariantOps, sizeof...(kSets)>{
      MakeStockOps<static_cast<codegen::ComponentSet>(kSets)>()...};
}

const VariantOps& FindStockOps(codegen::ComponentSet components) {
  static constexpr auto kTable = MakeTable(std::make_index_sequence<codegen::kAllComponents + 1>{});
  return kTable[components];
}

}  // namespace trencadis::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trencadis::cpu {
namespace {

struct CompiledOps {
  std::int64_t target;
  StockOps ops;
};

// Best first.
constexpr CompiledOps kCompiled[] = {
#if HWY_TARGETS & HWY_AVX3
    {HWY_AVX3, {"AVX3", &N_AVX3::FindStockOps}},
#endif
#if HWY_TARGETS & HWY_AVX2
    {HWY_AVX2, {"AVX2", &N_AVX2::FindStockOps}},
#endif
#if HWY_TARGETS & HWY_SSE4
    {HWY_SSE4, {"SSE4", &N_SSE4::FindStockOps}},
#endif
#if HWY_TARGETS & HWY_NEON
    {HWY_NEON, {"NEON", &N_NEON::FindStockOps}},
#endif
};

}  // namespace

std::span<const StockOps> supported_stock_ops() {
  static const std::vector<StockOps> supported = [] {
    std::vector<StockOps> found;
    for (const CompiledOps& compiled : kCompiled)
      if ((hwy::SupportedTargets() & compiled.target) != 0) found.push_back(compiled.ops);
    return found;
  }();
  return supported;
}

}  // namespace trencadis::cpu
#endif
