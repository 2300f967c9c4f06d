// Key and value hooks: a tile of tokens is rewritten in place before it is used.
#pragma once

#include "cuda/collective/block.h"
#include "cuda/collective/launch.h"
#include "cuda/collective/row_scratch.h"
#include "cuda/ptx/thread.h"
#include "variant/chain.h"

namespace trencadis::collective {

/// For the whole CTA, a warp a token. Nothing, not even a barrier, for functors without the hooks.
template <class Config, class Shape, class Source>
TRENCADIS_DEVICE void transform_tokens(const Launch<Config>& launch, const Block& block,
                                       const Source& source, int tile) {
  using Functor = typename Config::Functor;
  using Tag = typename Config::Element;
  constexpr bool kKeys = variant::kHasHook<Functor, variant::kKeyTransform>;
  constexpr bool kValues = variant::kHasHook<Functor, variant::kValueTransform>;
  if constexpr (kKeys || kValues) {
    const int warp = ptx::warp_index();
    auto* scratch = reinterpret_cast<float*>(launch.shared + Shape::kRowScratch +
                                             warp * Shape::kRowScratchBytes);
    for (int token = warp; token < source.tokens(tile); token += Config::kWarps) {
      const variant::KeyCoord at = block.key_coord(source.position(tile, token));
      if constexpr (kKeys)
        rewrite_row<Tag, typename Shape::KeyTile, Config::kHeadDimQk>(
            source.key_bytes(tile), token, scratch, [&](const FloatRow& row, int d) {
              return Functor::key_transform(launch.variant, row, d, at);
            });
      if constexpr (kValues)
        rewrite_row<Tag, typename Shape::ValueTile, Config::kHeadDimVo>(
            source.value_bytes(tile), token, scratch, [&](const FloatRow& row, int d) {
              return Functor::value_transform(launch.variant, row, d, at);
            });
    }
    ptx::sync_cta();
  }
}

}  // namespace trencadis::collective
