#include "serving/verifier.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace trencadis::app {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

AttentionConfig reference_config(AttentionConfig config) {
  config.backend = BackendKind::reference;
  config.workspace = {};  // the caller's is sized for the backend under test
  return config;
}

double difference(double value, double expected) {
  const double error = std::fabs(value - expected);
  return std::isfinite(error) ? error : kInfinity;
}

}  // namespace

Verifier::Verifier(const ModelShape& shape, DType dtype, AttentionConfig config,
                   std::int64_t max_tokens)
    : shape_(shape),
      dtype_(dtype),
      reference_(shape, dtype, DType::f32, reference_config(config)),
      out_("the reference output", DType::f32, {max_tokens, shape.num_qo_heads, shape.head_dim}),
      lse_("the reference LSE", DType::f32, {max_tokens, shape.num_qo_heads}) {}

void Verifier::check(const Step& step, int layer, const RunArgs& args) {
  RunArgs expected = args;
  expected.out = out_.view().slice(0, 0, step.tokens());
  expected.lse = lse_.view().slice(0, 0, step.tokens());
  for (std::size_t kind = 0; kind < reference_.num_kinds(); ++kind) reference_.plan(kind, step);
  reference_.layer(layer).run(expected);

  ++result_.steps;
  for (std::int64_t token = 0; token < step.tokens(); ++token)
    for (int head = 0; head < shape_.num_qo_heads; ++head)
      compare_row(step, layer, args, token, head);
}

void Verifier::compare_row(const Step& step, int layer, const RunArgs& args, std::int64_t token,
                           int head) {
  const std::int64_t row = token * shape_.num_qo_heads + head;
  const float* expected = out_.view().data_as<float>() + row * shape_.head_dim;
  double squares = 0.0;
  for (int d = 0; d < shape_.head_dim; ++d) squares += double{expected[d]} * expected[d];
  const double rms = std::sqrt(squares / shape_.head_dim);
  const double u = unit_roundoff(dtype_);

  for (int d = 0; d < shape_.head_dim; ++d) {
    const double value = load_element(args.out.data(), dtype_, row * shape_.head_dim + d);
    const double error = difference(value, expected[d]);
    const double allowed = u * std::fabs(expected[d]) + (3.0 * u + 0x1p-15) * rms;
    const double share = error == 0.0 ? 0.0 : error / allowed;
    result_.max_error = std::max(result_.max_error, error);
    if (share > result_.max_allowed) {
      result_.max_allowed = share;
      result_.worst = fmt::format(
          "step {}, layer {}, request of line {}, head {}, dim {}: {} where the "
          "reference has {}",
          step.index, layer,
          step.lines[static_cast<std::size_t>(step.batch_indices[static_cast<std::size_t>(token)])],
          head, d, value, expected[d]);
    }
  }
  result_.max_lse_error =
      std::max(result_.max_lse_error,
               difference(args.lse.data_as<float>()[row], lse_.view().data_as<float>()[row]));
}

}  // namespace trencadis::app
