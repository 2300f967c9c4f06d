// The attention kernel of a configuration (collective/shape.h) and its contraction. Generated code
// declares the two __global__ functions.
#pragma once

#include "contract/params.h"
#include "contract/plan.h"
#include "cuda/collective/queues.h"

namespace trencadis::entry {

template <class Config>
TRENCADIS_DEVICE void attention(const contract::AttentionParams& params,
                                const contract::PlanHeader* plan) {
  collective::run_queues<Config>(params, plan);
}

template <class Config>
TRENCADIS_DEVICE void merge(const contract::AttentionParams& params,
                            const contract::PlanHeader* plan) {
  collective::run_merges<Config>(params, plan);
}

/// Dynamic shared memory of the attention kernel, in bytes.
template <class Config>
inline constexpr int kSharedBytes =
    collective::shared_bytes<Config>(typename Config::TileClasses{});

}  // namespace trencadis::entry
