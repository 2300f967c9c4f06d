// Layers in the host's memory, as the CPU and the reference backend run them.
#pragma once

#include "serving/host_tensor.h"
#include "serving/layers.h"

namespace trencadis::app {

class HostLayers : public Layers {
 public:
  explicit HostLayers(const LayersOptions& options);

  ModelAttention& engine() override { return engine_; }
  void plan(std::size_t kind, const Step& step) override { engine_.plan(kind, step); }
  StepTimes serve(const Step& step, Verifier* verifier) override;
  double measure_read_rate() override;
  std::int64_t pool_bytes() const override { return pool_.bytes(); }

 private:
  void append(const Step& step, int layer);
  RunArgs run_args(const Step& step, int layer, bool with_lse) const;

  int layers_, threads_;
  std::int64_t page_size_;
  HostTensor workspace_;
  ModelAttention engine_;
  KvPool pool_;
  TokenBank queries_, keys_, values_;
  HostTensor out_, lse_;
};

}  // namespace trencadis::app
