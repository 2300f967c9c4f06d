#include "serving/models.h"

#include <array>
#include <charconv>

#include "output/failure.h"

namespace trencadis::app {
namespace {

constexpr int kHeadsLayers = 2;
// Beyond what any model has; sizes of tensors within them do not overflow.
constexpr int kMaxHeads = 4096;
constexpr int kMaxHeadDim = 1024;

// From the models' published configurations. `tiny` is nobody's: it is sized so that a thousand
// requests of a real trace can be served by two CPU cores within two minutes.
constexpr std::array<ModelShape, 14> kModels{{
    {"tiny", 4, 2, 64, 2},
    {"llama-3.2-1b", 32, 8, 64, 16},
    {"llama-3.2-3b", 24, 8, 128, 28},
    {"llama-3.1-8b", 32, 8, 128, 32},
    {"llama-3.1-70b", 64, 8, 128, 80},
    {"llama-3.1-405b", 128, 8, 128, 126},
    {"mistral-7b-v0.1", 32, 8, 128, 32, 0.0, 4096, 1},
    {"mistral-7b-v0.3", 32, 8, 128, 32},
    {"qwen2.5-7b", 28, 4, 128, 28},
    {"qwen2.5-32b", 40, 8, 128, 64},
    {"qwen2.5-72b", 64, 8, 128, 80},
    {"gemma-2-2b", 8, 4, 256, 26, 50.0, 4096, 2},
    {"gemma-2-9b", 16, 8, 256, 42, 50.0, 4096, 2},
    {"phi-3-mini", 32, 32, 96, 32},
}};

std::string names() {
  std::string all;
  for (const ModelShape& model : kModels)
    all += (all.empty() ? "" : ", ") + std::string(model.name);
  return all;
}

bool take_int(std::string_view& text, int& value) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  return true;
}

bool take_colon(std::string_view& text) {
  if (text.empty() || text.front() != ':') return false;
  text.remove_prefix(1);
  return true;
}

bool in_range(int value, int high) {
  return value >= 1 && value <= high;
}

}  // namespace

std::span<const ModelShape> known_models() {
  return kModels;
}

const ModelShape& find_model(std::string_view name) {
  for (const ModelShape& model : kModels)
    if (model.name == name) return model;
  fail(ErrorKind::invalid_argument,
       "the model \"{}\" is unknown; known are {}; or give its shape with --heads H_q:H_kv:D", name,
       names());
}

ModelShape parse_heads(const std::string& text) {
  ModelShape shape;
  shape.num_layers = kHeadsLayers;
  std::string_view rest = text;
  const bool ok = take_int(rest, shape.num_qo_heads) && take_colon(rest) &&
                  take_int(rest, shape.num_kv_heads) && take_colon(rest) &&
                  take_int(rest, shape.head_dim) && rest.empty();
  if (!ok || !in_range(shape.num_qo_heads, kMaxHeads) || !in_range(shape.num_kv_heads, kMaxHeads) ||
      !in_range(shape.head_dim, kMaxHeadDim))
    fail(ErrorKind::invalid_argument,
         "--heads is \"{}\", expected H_q:H_kv:D as in 32:8:128, at most {} heads of D at most {}",
         text, kMaxHeads, kMaxHeadDim);
  if (shape.num_qo_heads % shape.num_kv_heads != 0)
    fail(ErrorKind::invalid_argument,
         "--heads is \"{}\": {} query heads are not a multiple of {} KV heads", text,
         shape.num_qo_heads, shape.num_kv_heads);
  return shape;
}

std::string describe(const ModelShape& shape) {
  if (!shape.name.empty()) return std::string(shape.name);
  return fmt::format("{}:{}:{}", shape.num_qo_heads, shape.num_kv_heads, shape.head_dim);
}

}  // namespace trencadis::app
