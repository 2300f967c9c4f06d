// The attention operators of one model: one for each kind of layer, all planned for the same step.
#pragma once

#include <trencadis/attention.h>

#include <span>
#include <vector>

#include "serving/batcher.h"
#include "serving/models.h"

namespace trencadis::app {

class ModelAttention {
 public:
  /// Causal attention over dtype in q, k and v, with the model's soft cap and windows. config gives
  /// everything but the heads. workspaces: one for each kind, or none, where config's serves all.
  /// Throws what Attention's constructor throws.
  ModelAttention(const ModelShape& shape, DType dtype, DType dtype_o, AttentionConfig config,
                 std::span<const TensorView> workspaces = {});

  /// With and without a window: 1 or 2.
  static std::size_t num_kinds(const ModelShape& shape);
  std::size_t num_kinds() const { return kinds_.size(); }
  Attention& kind(std::size_t index) { return kinds_[index]; }
  Attention& layer(int layer) { return kinds_[kind_of(layer)]; }

  /// Plans one kind for the step, which is borrowed until its last run(). stream: as Attention's.
  void plan(std::size_t kind, const Step& step, void* stream = nullptr);

  /// Bytes of keys and values that the step's rows can see in all layers: what a kernel that reads
  /// every token once for each KV head has to read.
  double visible_kv_bytes(const Step& step) const;

 private:
  std::size_t kind_of(int layer) const;

  ModelShape shape_;
  DType dtype_;
  std::vector<Attention> kinds_;  // [windowed layers,] the others
};

}  // namespace trencadis::app
