// Attention shapes of published models, by name.
#pragma once

#include <trencadis/attention_spec.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace trencadis::app {

struct ModelShape {
  std::string_view name;
  int num_qo_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int num_layers = 0;
  double soft_cap = 0.0;    // of the attention logits; 0: none
  std::int64_t window = 0;  // tokens that a row sees in windowed layers, itself included; 0: all
  int window_every = 0;     // layer l is windowed where l % window_every == 0; 0: none
};

std::span<const ModelShape> known_models();

/// Throws Error(invalid_argument) with the known names.
const ModelShape& find_model(std::string_view name);

/// "H_q:H_kv:D" with H_q a multiple of H_kv, as a model of two layers without a name.
/// Throws Error(invalid_argument).
ModelShape parse_heads(const std::string& text);

/// "llama-3.1-8b", or "8:2:64" where the shape has no name.
std::string describe(const ModelShape& shape);

}  // namespace trencadis::app
