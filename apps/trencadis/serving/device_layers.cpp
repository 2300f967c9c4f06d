#include "serving/device_layers.h"

#include <chrono>
#include <numeric>

#include "output/failure.h"
#include "serving/device_read_rate.h"

namespace trencadis::app {
namespace {

using Clock = std::chrono::steady_clock;

// Ten times the largest cache of a GPU, and a hundredth of its memory.
constexpr std::int64_t kProbeBytes = std::int64_t{512} << 20;

std::vector<DeviceTensor> make_workspaces(const LayersOptions& o, Device device) {
  std::vector<DeviceTensor> workspaces;
  if (o.workspace_bytes == 0) return workspaces;
  // Plans of all kinds are in force together, and each lies in its workspace.
  for (std::size_t kind = 0; kind < ModelAttention::num_kinds(o.model); ++kind)
    workspaces.emplace_back("the workspace", device, DType::u8,
                            std::initializer_list<std::int64_t>{o.workspace_bytes});
  return workspaces;
}

ModelAttention make_engine(const LayersOptions& o, const std::vector<DeviceTensor>& workspaces) {
  std::vector<TensorView> views;
  for (const DeviceTensor& workspace : workspaces) views.push_back(workspace.view());
  return {o.model, o.dtype, o.dtype, o.config, views};
}

/// Rows of a step's queries, keys or values in all layers.
std::int64_t bank_rows(const LayersOptions& o) {
  return o.config.limits.max_qo_tokens + o.model.num_layers - 1;
}

}  // namespace

DeviceLayers::DeviceLayers(const LayersOptions& o)
    : options_(o),
      layers_(o.model.num_layers),
      device_{DeviceKind::cuda, o.config.device_index},
      stream_(device_),
      pool_("the KV pool of all layers", device_, o.dtype,
            {o.pool.layers, 2, o.pool.pages, o.pool.page_size, o.pool.heads, o.pool.head_dim}),
      workspaces_(make_workspaces(o, device_)),
      engine_(make_engine(o, workspaces_)),
      host_queries_(TokenBank::queries(o.model, o.dtype, bank_rows(o))),
      host_keys_(TokenBank::keys(o.model, o.dtype, bank_rows(o))),
      host_values_(TokenBank::values(o.model, o.dtype, bank_rows(o))),
      queries_("the queries", device_, o.dtype,
               {bank_rows(o), o.model.num_qo_heads, o.model.head_dim}),
      keys_("the new keys", device_, o.dtype,
            {bank_rows(o), o.model.num_kv_heads, o.model.head_dim}),
      values_("the new values", device_, o.dtype,
              {bank_rows(o), o.model.num_kv_heads, o.model.head_dim}),
      batch_indices_("the tokens' requests", device_, DType::i32, {o.config.limits.max_qo_tokens}),
      positions_("the tokens' positions", device_, DType::i32, {o.config.limits.max_qo_tokens}),
      indptr_("the page table", device_, DType::i32, {o.config.limits.max_batch + 1}),
      indices_("the page table", device_, DType::i32, {o.config.limits.max_pages}),
      num_tokens_("the number of tokens", device_, DType::i32, {1}),
      num_refused_("the number of refused tokens", device_, DType::i32, {1}),
      out_("the output of all layers", device_, o.dtype,
           {o.model.num_layers, o.config.limits.max_qo_tokens, o.model.num_qo_heads,
            o.model.head_dim}),
      lse_("the LSE of all layers", device_, DType::f32,
           {o.model.num_layers, o.config.limits.max_qo_tokens, o.model.num_qo_heads}),
      append_timer_(device_),
      attention_timer_(device_) {
  num_refused_.upload(std::array<std::int32_t, 1>{0});
}

StepTimes DeviceLayers::serve(const Step& step, Verifier* verifier) {
  bring(step);
  const Graphs& graphs = graphs_of(step);
  append_timer_.start(stream_);
  graphs.append.launch(stream_);
  append_timer_.stop(stream_);
  // Queued while the appends run, so that the time holds nothing of the host's.
  attention_timer_.start(stream_);
  graphs.attention.launch(stream_);
  attention_timer_.stop(stream_);
  StepTimes times;
  times.attention_us = attention_timer_.microseconds();
  times.append_us = append_timer_.microseconds();
  check_appended(step);
  if (verifier == nullptr) return times;
  const auto start = Clock::now();
  verify(step, static_cast<int>(step.index % layers_), *verifier);
  times.verify_us = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  return times;
}

double DeviceLayers::measure_read_rate() {
  return measure_copy_rate(device_, options_.dtype, kProbeBytes);
}

void DeviceLayers::bring(const Step& step) {
  const std::int64_t rows = step.tokens() + layers_ - 1;
  queries_.upload(host_queries_.rows(step.index, 0, rows));
  keys_.upload(host_keys_.rows(step.index, 0, rows));
  values_.upload(host_values_.rows(step.index, 0, rows));
  batch_indices_.upload(step.batch_indices);
  positions_.upload(step.positions);
  indptr_.upload(step.kv_indptr);
  indices_.upload(step.kv_indices);
  num_tokens_.upload(std::array{static_cast<std::int32_t>(step.tokens())});
}

const DeviceLayers::Graphs& DeviceLayers::graphs_of(const Step& step) {
  std::optional<Graphs>& graphs = graphs_[step.is_decode() ? 0 : 1];
  if (graphs) return *graphs;
  const Limits& limits = options_.config.limits;
  DeviceGraph appends(stream_, [&] {
    for (int layer = 0; layer < layers_; ++layer)
      append(layer, step.is_decode() ? limits.max_batch : limits.max_qo_tokens);
  });
  DeviceGraph runs(stream_, [&] {
    for (int layer = 0; layer < layers_; ++layer) engine_.layer(layer).run(run_args(step, layer));
  });
  return graphs.emplace(Graphs{std::move(appends), std::move(runs)});
}

void DeviceLayers::append(int layer, std::int64_t capacity) {
  const TokenPlaces places{.batch_indices = batch_indices_.view().slice(0, 0, capacity),
                           .positions = positions_.view().slice(0, 0, capacity),
                           .indptr = indptr_.view(),
                           .indices = indices_.view(),
                           .num_tokens = num_tokens_.view(),
                           .num_refused = num_refused_.view()};
  append_kv(keys_.view().slice(0, layer, layer + capacity),
            values_.view().slice(0, layer, layer + capacity),
            trencadis::KvPool{.k = keys(layer), .v = values(layer)}, places,
            {.stream = stream_.handle()});
}

RunArgs DeviceLayers::run_args(const Step& step, int layer) {
  RunArgs args;
  args.q = queries_.view().slice(0, layer, layer + step.tokens());
  args.k = keys(layer);
  args.v = values(layer);
  // Every layer has an output of its own, so that a sampled one is what the graph wrote.
  args.out = out_.view().select(0, layer).slice(0, 0, step.tokens());
  args.lse = lse_.view().select(0, layer).slice(0, 0, step.tokens());
  args.stream = stream_.handle();
  return args;
}

void DeviceLayers::check_appended(const Step& step) const {
  std::int32_t refused = 0;
  num_refused_.download(num_refused_.view(), &refused);
  if (refused != 0)
    fail(ErrorKind::internal, "step {}: append_kv refused {} tokens, whose pages are in the table",
         step.index, refused);
}

void DeviceLayers::verify(const Step& step, int layer, Verifier& verifier) {
  // The step's pages alone, one after another.
  Step here = step;
  std::iota(here.kv_indices.begin(), here.kv_indices.end(), 0);
  const auto pages = static_cast<std::int64_t>(step.kv_indices.size());
  const PoolShape& shape = options_.pool;
  const HostTensor k("the sampled keys", options_.dtype,
                     {pages, shape.page_size, shape.heads, shape.head_dim});
  const HostTensor v("the sampled values", options_.dtype,
                     {pages, shape.page_size, shape.heads, shape.head_dim});
  for (std::int64_t i = 0; i < pages; ++i) {
    const std::int32_t page = step.kv_indices[static_cast<std::size_t>(i)];
    pool_.download(keys(layer).select(0, page), k.view().select(0, i).data());
    pool_.download(values(layer).select(0, page), v.view().select(0, i).data());
  }
  // The new tokens and the queries are the host's own: what went wrong with them on the device
  // shows as a difference.
  const auto rows = [&](const TokenBank& bank) {
    return bank.rows(step.index, 0, layer + step.tokens()).slice(0, layer, layer + step.tokens());
  };
  append_kv(rows(host_keys_), rows(host_values_), step.batch_indices, step.positions, k.view(),
            v.view(), here.page_table(shape.page_size));

  const RunArgs there = run_args(step, layer);
  const HostTensor out("the sampled output", options_.dtype,
                       {step.tokens(), options_.model.num_qo_heads, options_.model.head_dim});
  const HostTensor lse("the sampled LSE", DType::f32, {step.tokens(), options_.model.num_qo_heads});
  out_.download(there.out, out.view().data());
  lse_.download(there.lse, lse.view().data());
  verifier.check(here, layer,
                 {.q = rows(host_queries_),
                  .k = k.view(),
                  .v = v.view(),
                  .out = out.view(),
                  .lse = lse.view()});
}

}  // namespace trencadis::app
