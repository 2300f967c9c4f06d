// The public merge operator. States: collective::PairOfStates, StackedStates or RaggedStates.
#pragma once

#include "contract/merge.h"
#include "cuda/collective/merge_states.h"

namespace trencadis::entry {

template <class In, class Out, class States>
TRENCADIS_DEVICE void merge_states(const contract::MergeStatesParams& params) {
  collective::merge_states<In, Out, States>(params);
}

}  // namespace trencadis::entry
