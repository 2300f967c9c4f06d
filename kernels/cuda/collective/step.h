// The arrays of a step, wherever they are: behind a plan that travelled to the device, so that a
// graph's arguments stay what they were, or where the parameters say.
#pragma once

#include "contract/params.h"
#include "contract/plan.h"
#include "cuda/ptx/thread.h"

namespace trencadis::collective {

struct Step {
  const int* qo_indptr;    // [B + 1]
  const int* kv_lens;      // [B] logical lengths
  contract::BsrParams kv;  // indptr, indices, positions and kv_lens of the block rows
};

TRENCADIS_DEVICE const int* array_of(const contract::PlanView& plan, long long offset,
                                     const int* otherwise) {
  return offset != 0 ? plan.at<int>(offset) : otherwise;
}

TRENCADIS_DEVICE Step make_step(const contract::AttentionParams& params,
                                const contract::PlanView& plan) {
  const contract::PlanHeader& h = *plan.header;
  Step step{array_of(plan, h.qo_indptr_offset, params.qo_indptr),
            array_of(plan, h.kv_lens_offset, params.kv_lens), params.kv};
  step.kv.indptr = array_of(plan, h.block_indptr_offset, params.kv.indptr);
  step.kv.indices = array_of(plan, h.block_indices_offset, params.kv.indices);
  step.kv.positions = array_of(plan, h.block_positions_offset, params.kv.positions);
  step.kv.kv_lens = array_of(plan, h.row_lens_offset, params.kv.kv_lens);
  return step;
}

}  // namespace trencadis::collective
