// The public variants:: functions: options become functors, what they read, and bounds.
#include <trencadis/variant.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"
#include "codegen/stock_components.h"
#include "codegen/validate.h"

namespace trencadis::variants {
namespace {

using base::check;

Variant make_stock(codegen::ComponentSet components, bool with_positions) {
  Variant variant;
  variant.functor = codegen::stock_chain(components);
  for (const codegen::StockTensor& tensor : codegen::kStockTensors)
    if ((tensor.component & components) != 0 && (!tensor.optional || with_positions))
      variant.tensors.push_back({std::string(tensor.name), tensor.dtype});
  for (const codegen::StockScalar& scalar : codegen::kStockScalars)
    if ((scalar.component & components) != 0)
      variant.scalars.push_back({std::string(scalar.name), 0.0});
  return variant;
}

void set_scalar(Variant& variant, std::string_view name, double value) {
  variant.scalars[codegen::index_of(variant.scalars, name)].value = value;
}

/// Causal is a right bound of 0; where a window asks for less, there is nothing less to ask for.
MaskBounds make_bounds(bool causal, std::int64_t left, std::int64_t right) {
  check(left >= -1, "window_left is {}, expected -1 (unbounded) or more", left);
  check(right >= -1, "window_right is {}, expected -1 (unbounded) or more", right);
  return {left, causal ? 0 : right};
}

void check_rope(const Rope& rope) {
  check(rope.rotary_dim >= 0 && rope.rotary_dim % 2 == 0,
        "rope.rotary_dim is {}, expected an even number, or 0 for all of head_dim_qk",
        rope.rotary_dim);
  check(std::isfinite(rope.theta) && rope.theta > 0, "rope.theta is {}, expected more than 0",
        rope.theta);
  check(std::isfinite(rope.scale) && rope.scale > 0, "rope.scale is {}, expected more than 0",
        rope.scale);
  check(rope.high_freq_factor >= 0, "rope.high_freq_factor is {}, expected 0 (off) or more",
        rope.high_freq_factor);
  if (rope.high_freq_factor == 0) return;
  check(rope.low_freq_factor > 0 && rope.low_freq_factor < rope.high_freq_factor,
        "rope.low_freq_factor is {}, expected more than 0 and less than high_freq_factor = {}",
        rope.low_freq_factor, rope.high_freq_factor);
  check(std::isfinite(rope.old_context_len) && rope.old_context_len > 0,
        "rope.old_context_len is {}, expected the context length of the original training",
        rope.old_context_len);
}

/// Llama 3.1: long wavelengths are interpolated, short ones kept, those between are blended.
double llama3_frequency(const Rope& rope, double frequency) {
  const double turns = rope.old_context_len * frequency / (2.0 * std::numbers::pi);
  const double keep =
      (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return std::lerp(frequency / rope.scale, frequency, std::clamp(keep, 0.0, 1.0));
}

}  // namespace

Variant softmax(const SoftmaxOptions& options) {
  check(std::isfinite(options.soft_cap) && options.soft_cap >= 0,
        "soft_cap is {}, expected a finite number of 0 (none) or more", options.soft_cap);
  check(!options.prefix_lm || (!options.causal && options.window_right == -1),
        "prefix_lm with causal = {} and window_right = {}: a right bound hides the prefix that "
        "prefix_lm opens; expected causal = false and window_right = -1, for prefix_lm is causal "
        "beyond the prefix by itself",
        options.causal, options.window_right);
  if (options.rope) check_rope(*options.rope);

  codegen::ComponentSet components = 0;
  if (options.rope) components |= codegen::kRope;
  if (options.soft_cap > 0) components |= codegen::kSoftCap;
  if (options.alibi) components |= codegen::kAlibi;
  if (options.custom_mask) components |= codegen::kPackedMask;
  if (options.prefix_lm) components |= codegen::kPrefixLm;
  if (options.document_mask) components |= codegen::kDocumentMask;

  Variant variant = make_stock(components, options.rope && options.rope->explicit_positions);
  variant.bounds = make_bounds(options.causal, options.window_left, options.window_right);
  variant.sinks = options.sinks;
  if (options.soft_cap > 0) set_scalar(variant, "soft_cap", options.soft_cap);
  if (options.rope) {
    set_scalar(variant, "rope_dim", options.rope->rotary_dim);
    set_scalar(variant, "rope_interleaved", options.rope->interleaved ? 1.0 : 0.0);
  }
  return variant;
}

Variant sigmoid(const SigmoidOptions& options) {
  check(std::isfinite(options.bias), "bias is {}, expected a finite number", options.bias);
  Variant variant = make_stock(codegen::kSigmoid, false);
  variant.bounds = make_bounds(options.causal, options.window_left, options.window_right);
  variant.use_softmax = false;
  set_scalar(variant, "sigmoid_bias", options.bias);
  return variant;
}

Variant custom(std::string functor, std::string source, std::vector<ExtraTensor> tensors,
               std::vector<ExtraScalar> scalars, MaskBounds bounds, bool use_softmax) {
  Variant variant{.functor = std::move(functor),
                  .source = std::move(source),
                  .tensors = std::move(tensors),
                  .scalars = std::move(scalars),
                  .bounds = bounds,
                  .use_softmax = use_softmax};
  check(!variant.source.empty(),
        "source is empty: expected C++ text that defines '{}' (stock functors come from "
        "variants::softmax and variants::sigmoid)",
        variant.functor);
  codegen::validate(variant);
  return variant;
}

std::vector<float> rope_inv_freq(const Rope& rope, int head_dim_qk) {
  check_rope(rope);
  check(head_dim_qk > 0, "head_dim_qk is {}, expected more than 0", head_dim_qk);
  const int rotary_dim = rope.rotary_dim == 0 ? head_dim_qk : rope.rotary_dim;
  check(rotary_dim <= head_dim_qk && rotary_dim % 2 == 0,
        "rope.rotary_dim is {}, expected an even number of at most head_dim_qk = {}", rotary_dim,
        head_dim_qk);
  std::vector<float> inv_freq;
  inv_freq.reserve(static_cast<std::size_t>(rotary_dim / 2));
  for (int i = 0; i < rotary_dim / 2; ++i) {
    const double frequency = std::pow(rope.theta, -2.0 * i / rotary_dim);
    inv_freq.push_back(static_cast<float>(
        rope.high_freq_factor > 0 ? llama3_frequency(rope, frequency) : frequency / rope.scale));
  }
  return inv_freq;
}

}  // namespace trencadis::variants
