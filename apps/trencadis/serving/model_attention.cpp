#include "serving/model_attention.h"

#include <algorithm>

namespace trencadis::app {
namespace {

AttentionSpec make_spec(const ModelShape& shape, DType dtype, DType dtype_o, bool windowed) {
  variants::SoftmaxOptions softmax;
  softmax.causal = true;
  softmax.soft_cap = shape.soft_cap;
  if (windowed) softmax.window_left = shape.window - 1;  // a row's own token is one of the window
  AttentionSpec spec;
  spec.head_dim_qk = shape.head_dim;
  spec.dtype_q = spec.dtype_kv = dtype;
  spec.dtype_o = dtype_o;
  spec.variant = variants::softmax(softmax);
  return spec;
}

}  // namespace

ModelAttention::ModelAttention(const ModelShape& shape, DType dtype, DType dtype_o,
                               AttentionConfig config, std::span<const TensorView> workspaces)
    : shape_(shape), dtype_(dtype) {
  config.heads = {shape.num_qo_heads, shape.num_kv_heads};
  const auto add = [&](bool windowed) {
    if (!workspaces.empty()) config.workspace = workspaces[kinds_.size()];
    kinds_.emplace_back(make_spec(shape, dtype, dtype_o, windowed), config);
  };
  if (shape.window_every > 0) add(/*windowed=*/true);
  if (shape.window_every != 1) add(/*windowed=*/false);
}

std::size_t ModelAttention::num_kinds(const ModelShape& shape) {
  return shape.window_every > 1 ? 2 : 1;
}

std::size_t ModelAttention::kind_of(int layer) const {
  if (kinds_.size() == 1) return 0;
  return layer % shape_.window_every == 0 ? 0 : 1;
}

void ModelAttention::plan(std::size_t kind, const Step& step, void* stream) {
  kinds_[kind].plan(step.qo_indptr, step.kv_indptr, step.kv_indices, step.kv_lens, stream);
}

double ModelAttention::visible_kv_bytes(const Step& step) const {
  double all = 0.0, in_window = 0.0;
  for (std::int64_t b = 0; b < step.batch(); ++b) {
    const std::int64_t length = step.kv_lens[static_cast<std::size_t>(b)];
    all += static_cast<double>(length);
    in_window += static_cast<double>(std::min(length, shape_.window + step.query_len(b) - 1));
  }
  double tokens = 0.0;
  for (int layer = 0; layer < shape_.num_layers; ++layer) {
    const bool windowed = shape_.window_every > 0 && layer % shape_.window_every == 0;
    tokens += windowed ? in_window : all;
  }
  return tokens * 2.0 * shape_.num_kv_heads * shape_.head_dim *
         static_cast<double>(size_of(dtype_));
}

}  // namespace trencadis::app
