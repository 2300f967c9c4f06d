// The attention kernel of a configuration (collective/shape.h). Generated code declares the
// __global__ function.
#pragma once

#include "contract/params.h"
#include "contract/plan_image.h"
#include "cuda/collective/queues.h"

namespace trencadis::entry {

template <class Config>
TRENCADIS_DEVICE void attention(const contract::AttentionParams& params,
                                const contract::PlanImage* plan) {
  collective::run_queues<Config>(params, *plan);
}

/// Dynamic shared memory of the attention kernel, in bytes.
template <class Config>
inline constexpr int kSharedBytes =
    collective::shared_bytes<Config>(typename Config::TileClasses{});

}  // namespace trencadis::entry
