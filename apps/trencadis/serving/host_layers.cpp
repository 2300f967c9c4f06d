#include "serving/host_layers.h"

#include <trencadis/kv_cache.h>
#include <trencadis/runtime.h>

#include <chrono>

namespace trencadis::app {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

HostTensor make_workspace(std::int64_t bytes) {
  if (bytes == 0) return {};
  return {"the workspace", DType::u8, {bytes}};
}

AttentionConfig with_workspace(AttentionConfig config, const HostTensor& workspace) {
  config.workspace = workspace.view();
  return config;
}

}  // namespace

HostLayers::HostLayers(const LayersOptions& o)
    : layers_(o.model.num_layers),
      threads_(o.config.num_threads),
      page_size_(o.pool.page_size),
      workspace_(make_workspace(o.workspace_bytes)),
      engine_(o.model, o.dtype, o.dtype, with_workspace(o.config, workspace_)),
      pool_(o.pool),
      queries_(TokenBank::queries(o.model, o.dtype, o.config.limits.max_qo_tokens)),
      keys_(TokenBank::keys(o.model, o.dtype, o.config.limits.max_qo_tokens)),
      values_(TokenBank::values(o.model, o.dtype, o.config.limits.max_qo_tokens)),
      out_("the output", o.dtype,
           {o.config.limits.max_qo_tokens, o.model.num_qo_heads, o.model.head_dim}),
      lse_("the LSE", DType::f32, {o.config.limits.max_qo_tokens, o.model.num_qo_heads}) {}

StepTimes HostLayers::serve(const Step& step, Verifier* verifier) {
  StepTimes times;
  for (int layer = 0; layer < layers_; ++layer) {
    auto start = Clock::now();
    append(step, layer);
    times.append_us += microseconds_since(start);
    const RunArgs args = run_args(step, layer, verifier != nullptr);
    start = Clock::now();
    engine_.layer(layer).run(args);
    times.attention_us += microseconds_since(start);
    if (verifier == nullptr || layer != step.index % layers_) continue;
    start = Clock::now();
    verifier->check(step, layer, args);
    times.verify_us += microseconds_since(start);
  }
  return times;
}

double HostLayers::measure_read_rate() {
  return measure_read_bandwidth(threads_);
}

void HostLayers::append(const Step& step, int layer) {
  append_kv(keys_.rows(step.index, layer, step.tokens()),
            values_.rows(step.index, layer, step.tokens()), step.batch_indices, step.positions,
            pool_.keys(layer), pool_.values(layer), step.page_table(page_size_));
}

RunArgs HostLayers::run_args(const Step& step, int layer, bool with_lse) const {
  RunArgs args;
  args.q = queries_.rows(step.index, layer, step.tokens());
  args.k = pool_.keys(layer);
  args.v = pool_.values(layer);
  args.out = out_.view().slice(0, 0, step.tokens());
  if (with_lse) args.lse = lse_.view().slice(0, 0, step.tokens());
  return args;
}

}  // namespace trencadis::app
