// Sampled steps run again in float64 by the reference backend, which shares no code with the
// kernels, over the same pool.
#pragma once

#include <trencadis/attention.h>

#include <cstdint>
#include <string>

#include "serving/host_tensor.h"
#include "serving/model_attention.h"

namespace trencadis::app {

/// The largest differences so far.
struct Verification {
  std::int64_t steps = 0;
  double max_error = 0.0;    // |o - reference|; infinite where one of them is not finite
  double max_allowed = 0.0;  // largest error as a share of what rounding explains; > 1 is wrong
  double max_lse_error = 0.0;
  std::string worst;  // where the largest share was

  /// Float32 sums leave an LSE of some tens good to 1e-5; a key too many among thousands shows.
  static constexpr double kLseTolerance = 1e-4;
  bool passed() const { return max_allowed <= 1.0 && max_lse_error <= kLseTolerance; }
};

class Verifier {
 public:
  /// config: the engine's own. max_tokens: of a step.
  Verifier(const ModelShape& shape, DType dtype, AttentionConfig config, std::int64_t max_tokens);

  /// Compares args.out and args.lse, as the engine wrote them for `layer`, with the reference.
  ///
  /// An element may differ by the rounding of the output, u |r|, and by what the rounding of the
  /// softmax weights to the storage type (u) and float32 sums add to a row whose root mean square
  /// is s: (3 u + 2^-15) s.
  void check(const Step& step, int layer, const RunArgs& args);

  const Verification& result() const { return result_; }

 private:
  void compare_row(const Step& step, int layer, const RunArgs& args, std::int64_t token, int head);

  ModelShape shape_;
  DType dtype_;
  ModelAttention reference_;
  HostTensor out_, lse_;  // float32 [max_tokens, H_q, D], [max_tokens, H_q]
  Verification result_;
};

}  // namespace trencadis::app
