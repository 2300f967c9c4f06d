#include "backends/cpu/cpu_executor.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "cpu/main_loop.h"
#include "cpu/output.h"

namespace trencadis::cpu {
namespace {

/// Queues a thread: how finely the planner divides the work. Threads take pieces as they become
/// free, so one that loses its core to another process does less and delays nobody for long.
constexpr int kQueuesPerThread = 4;

void check_plan(const contract::PlanHeader& header) {
  for (int i = 0; i < header.num_tile_classes; ++i) {
    const contract::TileClass& tile = header.tile_classes[i];
    base::ensure(tile.q_rows <= kMaxTileRows && tile.kv_tokens >= 1,
                 "tile class {} of the plan is {} x {}, the CPU's largest is {} x {}", i,
                 tile.q_rows, tile.kv_tokens, kMaxTileRows, kMaxTileKeys);
  }
}

}  // namespace

DeviceLimits cpu_limits(int num_threads, const Microkernels& simd) {
  DeviceLimits limits;
  limits.name = fmt::format("cpu:{}", num_threads);
  limits.num_ctas = num_threads * kQueuesPerThread;
  // Only the ratio of the two matters to a plan: at which length of a query tile an item stops
  // being bound by memory. 8 GB/s a core, and two fused multiply-adds a cycle at 2.5 GHz.
  limits.read_gbps = 8.0 * num_threads;
  limits.matmul_tflops = 0.01 * simd.lanes * num_threads;
  limits.tile_memory = 512 * 1024;  // second-level cache
  limits.max_query_tile = kMaxTileRows;
  limits.min_tensor_query_tile = 1;
  limits.item_overhead_us = 0.5;
  limits.tile_overhead_us = 0.1;
  return limits;
}

CpuExecutor::CpuExecutor(const AttentionSpec& spec, ResolvedVariant variant,
                         const Microkernels& simd, int num_threads)
    : variant_(std::move(variant)),
      simd_(simd),
      limits_(cpu_limits(num_threads, simd)),
      pool_(num_threads) {
  for (int thread = 0; thread < num_threads; ++thread)
    scratch_.push_back(std::make_unique<Scratch>(round_up(spec.head_dim_qk, simd.dim_multiple),
                                                 round_up(spec.vo(), simd.dim_multiple)));
}

void CpuExecutor::run(const contract::PlanView& plan, const contract::AttentionParams& params,
                      void* /*stream*/) {
  check_plan(*plan.header);
  contract::AttentionParams arranged = params;
  arranged.variant = variant_.arrange(params.variant);
  const Launch launch(simd_, variant_.ops(), arranged, plan.header->slot_rows);

  units_.assign(plan, launch, pool_.size());

  std::atomic<std::size_t> next_unit{0};
  std::atomic<int> next_merge{0};
  const std::span<const WorkUnit> units = units_.units();
  const int num_merges = plan.header->num_merges;
  const int num_final = num_merges + plan.header->num_empty_row_blocks;
  pool_.run([&](int thread) {
    Scratch& scratch = *scratch_[static_cast<std::size_t>(thread)];
    for (std::size_t u = next_unit.fetch_add(1); u < units.size(); u = next_unit.fetch_add(1))
      run_unit(launch, plan, units[u], scratch);
    if (num_merges > 0) pool_.barrier();  // every partial state is written
    for (int i = next_merge.fetch_add(1); i < num_final; i = next_merge.fetch_add(1)) {
      if (i < num_merges)
        merge_group(launch, plan, plan.merges()[i], scratch);
      else
        write_empty(launch, plan, plan.num_work_row_blocks() + i - num_merges, scratch);
    }
  });
}

void CpuExecutor::run_unit(const Launch& launch, const contract::PlanView& plan,
                           const WorkUnit& unit, Scratch& scratch) {
  const contract::WorkItem& item = plan.items()[unit.item];
  const contract::RowBlock& block = plan.row_blocks()[item.row_block];
  MainLoop(launch, scratch)
      .run(block, plan.header->tile_classes[block.tile_class], item, units_.heads(unit));
}

}  // namespace trencadis::cpu
