// What all items of a launch share.
#pragma once

#include "contract/params.h"
#include "contract/plan.h"
#include "cuda/collective/block.h"
#include "cuda/collective/step.h"
#include "cuda/ptx/memory.h"
#include "cuda/ptx/thread.h"

namespace trencadis::collective {

template <class Config>
struct Launch {
  const contract::AttentionParams& params;
  Step step;
  typename Config::Params variant;
  Bounds bounds;
  /// Logits are computed with |sm_scale|; a negative one turns the queries.
  float scale;
  bool negate;
  char* shared;
};

template <class Config>
TRENCADIS_DEVICE Launch<Config> make_launch(const contract::AttentionParams& params,
                                            const contract::PlanView& plan) {
  // A scale of 0 makes all logits 0, but 0 times a hidden logit's infinity is NaN.
  constexpr float kSmallest = 1.17549435e-38f;
  const float scale = fabsf(params.sm_scale);
  return {.params = params,
          .step = make_step(params, plan),
          .variant = Config::Params::load(params.variant),
          .bounds = {Bounds::of(params.bounds.left), Bounds::of(params.bounds.right)},
          .scale = scale < kSmallest ? kSmallest : scale,
          .negate = params.sm_scale < 0.0f,
          .shared = ptx::dynamic_shared()};
}

}  // namespace trencadis::collective
