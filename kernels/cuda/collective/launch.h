// What all items of a launch share.
#pragma once

#include "contract/params.h"
#include "contract/plan_image.h"
#include "cuda/collective/block.h"
#include "cuda/collective/element_run.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/thread.h"

namespace trencadis::collective {

/// Where pages are, in shared memory.
struct PageTable {
  const int* pages;      // of the block rows; null: contiguous
  const int* positions;  // of the pages among the block columns; null: in order
  int aligned;           // every row of keys and values begins at a multiple of 16 bytes

  TRENCADIS_DEVICE static PageTable& of(char* shared) {
    return *reinterpret_cast<PageTable*>(shared);
  }
};
static_assert(sizeof(PageTable) <= kLaunchBytes);

template <class Config>
struct Launch {
  const contract::AttentionParams& params;
  typename Config::Params variant;
  Bounds bounds;
  /// |sm_scale|; a negative one turns the sign of products first.
  float scale;
  bool negate;
  char* shared;
};

/// `page_table` is its place from the start of shared memory. To be followed by a barrier.
template <class Config>
TRENCADIS_DEVICE Launch<Config> make_launch(const contract::AttentionParams& params,
                                            const contract::PlanImage& plan, int page_table = 0) {
  char* const shared = ptx::dynamic_shared();
  if (ptx::thread_index() == 0) {
    using Tag = typename Config::Element;
    const bool keys = rows_aligned<Tag>(params.k, params.k_stride_page, params.k_stride_token,
                                        params.k_stride_head);
    const bool values = rows_aligned<Tag>(params.v, params.v_stride_page, params.v_stride_token,
                                          params.v_stride_head);
    PageTable::of(shared + page_table) = {plan.pages(), plan.positions(), keys && values};
  }
  // A scale of 0 makes all logits 0, but 0 times a hidden logit's infinity is NaN.
  constexpr float kSmallest = 1.17549435e-38f;
  const float scale = fabsf(params.sm_scale);
  return {.params = params,
          .variant = Config::Params::load(params.variant),
          .bounds = {Bounds::of(params.bounds.left), Bounds::of(params.bounds.right)},
          .scale = scale < kSmallest ? kSmallest : scale,
          .negate = params.sm_scale < 0.0f,
          .shared = shared};
}

}  // namespace trencadis::collective
