// The layers of the model that a replay serves: their KV pools, the new tokens of each step, and
// the attention over them; in the host's memory or in a GPU's.
#pragma once

#include <cstdint>
#include <memory>

#include "serving/batcher.h"
#include "serving/kv_pool.h"
#include "serving/model_attention.h"
#include "serving/models.h"
#include "serving/verifier.h"

namespace trencadis::app {

struct LayersOptions {
  ModelShape model;
  DType dtype = DType::bf16;
  AttentionConfig config;            // limits are set; without a workspace
  std::int64_t workspace_bytes = 0;  // 0: what the limits ask for
  PoolShape pool;
};

/// What a step took: its appends and its runs in all layers, and the check of a sampled one.
struct StepTimes {
  double append_us = 0.0, attention_us = 0.0, verify_us = 0.0;
};

class Layers {
 public:
  virtual ~Layers() = default;

  virtual ModelAttention& engine() = 0;
  /// Plans one kind of layer for the step, which is borrowed until serve() returns.
  virtual void plan(std::size_t kind, const Step& step) = 0;
  /// Appends the step's tokens to every layer's pool and runs every layer. Of a sampled step one
  /// layer, another each time, is checked by the verifier; null: the step is not sampled.
  virtual StepTimes serve(const Step& step, Verifier* verifier) = 0;

  /// What the pools' memory is read with, 1e9 bytes a second, measured now.
  virtual double measure_read_rate() = 0;
  /// Of the pools of all layers.
  virtual std::int64_t pool_bytes() const = 0;
};

/// Of the config's backend, which is not BackendKind::automatic. Throws what Attention's
/// constructor throws, and Error(out_of_capacity) where the pools or the tensors of a step find no
/// memory.
std::unique_ptr<Layers> make_layers(const LayersOptions& options);

/// Bytes of memory of the config's GPU. Throws Error(not_supported) without one.
std::int64_t gpu_memory_bytes(int device_index);

}  // namespace trencadis::app
