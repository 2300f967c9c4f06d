// Layers in a GPU's memory, run by graphs that are captured once.
//
// A step has two graphs: one appends its tokens to the pools of all layers, one runs attention over
// all of them, so that each can be timed. Their arguments are the same for every step, since what
// differs, lengths and places, is read from memory that plan() and bring() fill before each launch.
// Steps of decode alone and mixed ones have graphs of their own: the append of a mixed step is
// sized for its prompt tokens. serve() waits for the device at the end of a step, and only then
// does the next one touch that memory.
#pragma once

#include <trencadis/device.h>
#include <trencadis/kv_cache.h>

#include <array>
#include <optional>
#include <vector>

#include "serving/device_tensor.h"
#include "serving/layers.h"

namespace trencadis::app {

class DeviceLayers : public Layers {
 public:
  explicit DeviceLayers(const LayersOptions& options);

  ModelAttention& engine() override { return engine_; }
  void plan(std::size_t kind, const Step& step) override {
    engine_.plan(kind, step, stream_.handle());
  }
  StepTimes serve(const Step& step, Verifier* verifier) override;
  double measure_read_rate() override;
  std::int64_t pool_bytes() const override { return pool_.bytes(); }

 private:
  struct Graphs {
    DeviceGraph append, attention;
  };

  /// The step's queries, keys and values, and where its tokens lie in the pools.
  void bring(const Step& step);
  const Graphs& graphs_of(const Step& step);
  void append(int layer, std::int64_t capacity);
  RunArgs run_args(const Step& step, int layer);
  void check_appended(const Step& step) const;
  void verify(const Step& step, int layer, Verifier& verifier);

  TensorView keys(int layer) const { return pool_.view().select(0, layer).select(0, 0); }
  TensorView values(int layer) const { return pool_.view().select(0, layer).select(0, 1); }

  LayersOptions options_;
  int layers_;
  Device device_;
  DeviceStream stream_;
  DeviceTensor pool_;                     // [layers, K and V, pages, P, H_kv, D]
  std::vector<DeviceTensor> workspaces_;  // of each kind of layer; empty: the engine's own
  ModelAttention engine_;
  TokenBank host_queries_, host_keys_, host_values_;
  DeviceTensor queries_, keys_, values_;  // layer l has the rows from the l-th on
  DeviceTensor batch_indices_, positions_, indptr_, indices_, num_tokens_, num_refused_;
  DeviceTensor out_, lse_;  // [layers, tokens, ...]
  DeviceTimer append_timer_, attention_timer_;
  std::array<std::optional<Graphs>, 2> graphs_;  // of decode and of mixed steps
};

}  // namespace trencadis::app
