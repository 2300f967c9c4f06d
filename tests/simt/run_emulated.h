// The CUDA attention kernel, emulated, on a test's problem: planned for a device of `ctas` CTAs,
// attended and merged by the entry points that a GPU would run.
#pragma once

#include <trencadis/attention.h>
#include <trencadis/plan.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "backends/cpu/stock_params.h"
#include "backends/cpu/variant_registry.h"
#include "cuda/entry/attention.h"
#include "cuda/entry/attention_ring.h"
#include "engine/run_arguments.h"
#include "engine/validate.h"
#include "planner/plan_image.h"
#include "planner/plan_impl.h"
#include "planner/workspace.h"
#include "simt/launch.h"
#include "support/run.h"

namespace trencadis::simt {

/// A card with few CTAs, so that work is split and queues hold several items.
inline DeviceLimits device_of(int ctas) {
  DeviceLimits device = known_device("h200");
  device.name = "simt";
  device.num_ctas = ctas;
  device.item_overhead_us = 0.2;
  return device;
}

/// Whether a configuration is one of the Hopper template.
template <class Config>
inline constexpr bool kIsRing = requires {
  Config::kQueryBuffers;
};

/// Of its CTAs.
template <class Config>
constexpr int threads_of() {
  int threads = Config::kWarps * 32;
  if constexpr (kIsRing<Config>) threads += collective::RingLayout<Config>::kProducerThreads;
  return threads;
}
template <class Config>
inline constexpr int kThreads = threads_of<Config>();

template <class Config>
constexpr int shared_bytes_of() {
  if constexpr (kIsRing<Config>)
    return entry::kRingSharedBytes<Config>;
  else
    return entry::kSharedBytes<Config>;
}
template <class Config>
inline constexpr int kSharedBytes = shared_bytes_of<Config>();

/// The entry point of a thread.
template <class Config>
void attend(const contract::AttentionParams& params, const contract::PlanImage* plan) {
  if constexpr (kIsRing<Config>)
    entry::attention_ring<Config>(params, plan);
  else
    entry::attention<Config>(params, plan);
}

/// With the tiles of the Hopper template.
template <class Config>
DeviceLimits device_for(int ctas) {
  DeviceLimits device = device_of(ctas);
  if constexpr (kIsRing<Config>) {
    using Layout = collective::RingLayout<Config>;
    device.query_tiles = 16 | 128;
    device.min_kv_tile = device.max_kv_tile = Layout::kTokens;
    device.tile_memory = 0;
  }
  return device;
}

/// Poisoned memory for partial states, so that a state that is read and never written shows.
struct Partials {
  explicit Partials(const contract::PlanHeader& header, std::int64_t dim) {
    const auto rows = static_cast<std::size_t>(header.num_slots) * header.slot_rows;
    o.assign(rows * dim, std::nanf(""));
    lse.assign(rows, std::nanf(""));
  }
  std::vector<float> o, lse;
};

/// The plan as it lies in a device's memory: nothing in the parameters leads to its arrays.
struct DevicePlan {
  DevicePlan(const contract::PlanView& plan, const planner::StepArrays& step)
      : DevicePlan(plan, step, planner::image_layout(plan, step)) {}
  DevicePlan(const contract::PlanView& plan, const planner::StepArrays& step,
             const planner::ImageLayout& layout)
      : lines(static_cast<std::size_t>(layout.bytes) / sizeof(Line)) {
    planner::write_image(plan, step, layout, reinterpret_cast<std::byte*>(lines.data()));
  }
  const contract::PlanImage* get() const {
    return reinterpret_cast<const contract::PlanImage*>(lines.data());
  }
  struct alignas(16) Line {
    std::byte bytes[16];
  };
  std::vector<Line> lines;
};

template <class... Tiles>
std::vector<contract::TileClass> classes_of(collective::TileClasses<Tiles...>) {
  return {{Tiles::kRows, Tiles::kTokens}...};
}

template <class... Tiles>
std::vector<int> stages_of(collective::TileClasses<Tiles...>) {
  return {Tiles::kStages...};
}

/// Of the attention kernel that ran last.
inline Statistics& attention_statistics() {
  static Statistics of_last_run;
  return of_last_run;
}

/// Throws std::runtime_error as launch() does, and where the plan's classes are not the kernel's.
template <class Config>
testing::Output run_emulated(const testing::Problem& problem, const DeviceLimits& device,
                             std::uint64_t seed = 1) {
  const int ctas = device.num_ctas;
  Planner planner(problem.spec, problem.config.heads, device, problem.config.plan);
  Plan plan;
  planner.plan(problem.plan_input(), plan);
  const contract::PlanView view = plan.impl().buffer.view();
  const contract::PlanHeader& header = *view.header;
  const auto classes = classes_of(typename Config::TileClasses{});
  if (header.num_tile_classes != static_cast<int>(classes.size()) ||
      std::memcmp(header.tile_classes, classes.data(),
                  classes.size() * sizeof(contract::TileClass)) != 0)
    throw std::runtime_error("the plan has other tile classes than the kernel");

  const planner::Problem& planned = plan.impl().problem;
  contract::AttentionParams params{};
  params.num_qo_heads = problem.config.heads.qo;
  params.num_kv_heads = problem.config.heads.kv;
  params.head_dim_qk = problem.spec.head_dim_qk;
  params.head_dim_vo = problem.spec.vo();
  params.use_softmax = problem.spec.variant.use_softmax ? 1 : 0;
  params.lse_base_two = problem.spec.lse_base == LseBase::two ? 1 : 0;
  params.bounds = {problem.spec.variant.bounds.left, problem.spec.variant.bounds.right};
  params.sm_scale = static_cast<float>(problem.config.sm_scale == 0.0
                                           ? 1.0 / std::sqrt(double(problem.spec.head_dim_qk))
                                           : problem.config.sm_scale);
  params.batch = planned.num_requests();
  params.kv = planned.kv();
  const DevicePlan image(view, planner::StepArrays(planned));
  params.kv.indptr = params.kv.indices = params.kv.positions = params.kv.kv_lens = nullptr;
  Partials partials(header, params.head_dim_vo);
  params.partial_o = partials.o.data();
  params.partial_lse = partials.lse.data();

  return testing::collect(problem, [&](const RunArgs& args) {
    engine::bind_arguments(problem.spec, problem.config, Device{DeviceKind::cpu, 0},
                           engine::read_block_table(planned, planned.kv().indices == nullptr), args,
                           params);
    if constexpr (std::is_same_v<typename Config::Params, cpu::StockParams>)
      params.variant = cpu::resolve_variant(problem.spec.variant).arrange(params.variant);
    launch({.ctas = ctas,
            .threads = kThreads<Config>,
            .shared_bytes = static_cast<std::size_t>(kSharedBytes<Config>),
            .seed = seed},
           [&] { attend<Config>(params, image.get()); });
    attention_statistics() = statistics();
  });
}

template <class Config>
testing::Output run_emulated(const testing::Problem& problem, int ctas = 3,
                             std::uint64_t seed = 1) {
  return run_emulated<Config>(problem, device_for<Config>(ctas), seed);
}

}  // namespace trencadis::simt
