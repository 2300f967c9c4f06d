// The attention kernel of a configuration whose CTAs have roles (collective/ring_queues.h), for
// sm_90a. Generated code declares the __global__ function.
#pragma once

#include "contract/params.h"
#include "contract/plan_image.h"
#include "cuda/collective/ring_queues.h"

namespace trencadis::entry {

template <class Config>
TRENCADIS_DEVICE void attention_ring(const contract::AttentionParams& params,
                                     const contract::PlanImage* plan) {
  collective::run_ring<Config>(params, *plan);
}

/// Dynamic shared memory of the attention kernel, in bytes.
template <class Config>
inline constexpr int kRingSharedBytes =
    collective::ring_bytes<Config>(typename Config::TileClasses{});

}  // namespace trencadis::entry
