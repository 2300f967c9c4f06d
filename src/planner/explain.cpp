// Plan::explain(): why a plan is as it is, in words.
#include <fmt/format.h>
#include <trencadis/plan.h>

#include <array>
#include <iterator>
#include <string>

#include "planner/plan_reader.h"
#include "planner/planner.h"
#include "planner/workspace.h"

namespace trencadis {
namespace {

using planner::Cutting;
using planner::PlannerConfig;
using planner::PlanReader;

/// Appends a line.
template <class... Args>
void say(std::string& text, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
  text += '\n';
}

double us(planner::Nanoseconds ns) {
  return static_cast<double>(ns) * 1e-3;
}

void explain_classes(const PlannerConfig& config, const PlanReader& reader, std::string& text) {
  struct Use {
    std::int64_t blocks = 0, requests = 0, rows = 0;
    int last_request = -1;
  };
  std::array<Use, contract::kMaxTileClasses> uses{};
  for (int i = 0; i < reader.view().num_work_row_blocks(); ++i) {
    const contract::RowBlock& block = reader.view().row_blocks()[i];
    Use& use = uses[block.tile_class];
    ++use.blocks;
    use.rows += block.row_count;
    use.requests += block.request != use.last_request;
    use.last_request = block.request;
  }
  for (int i = 0; i < reader.header().num_tile_classes; ++i) {
    const Use& use = uses[i];
    if (use.blocks == 0) continue;
    const contract::TileClass& tile = reader.header().tile_classes[i];
    say(text,
        "tiles     T_q {} x T_kv {}: {} row blocks of {} requests, {:.0f} % of their rows filled "
        "(smallest T_q that holds l_q x {} rows; {} of {} bytes of tile memory; {:.2f} us a KV "
        "tile)",
        tile.q_rows, tile.kv_tokens, use.blocks, use.requests,
        100.0 * static_cast<double>(use.rows) / static_cast<double>(use.blocks * tile.q_rows),
        config.rules.group, planner::tile_bytes(config.spec, tile),
        config.device.tile_memory == 0 ? "unlimited" : fmt::to_string(config.device.tile_memory),
        us(config.rules.cost.tile[i]));
  }
  if (const int empty = reader.header().num_empty_row_blocks; empty > 0)
    say(text, "empty     {} row blocks a KV head see no key: written beside the queues", empty);
}

std::string why_scheduler(const PlannerConfig& config, Scheduler used, Cutting cutting) {
  const bool asked = config.options.scheduler != Scheduler::automatic;
  if (used == Scheduler::longest_first) {
    return fmt::format("longest first onto the least-loaded queue ({})",
                       asked                          ? "as asked"
                       : cutting == Cutting::balanced ? "a few tiles a queue, so equal chunks"
                                                      : "few items a queue that may not be cut");
  }
  if (used == Scheduler::l2_windows) {
    return fmt::format("head by head in windows of L2, onto the queue that is free first ({})",
                       asked ? "as asked" : "bound by products, so CTAs share K and V in L2");
  }
  if (cutting == Cutting::while_placing) {
    return fmt::format("even cut ({}): one line of work, {} equal shares, cut at KV tiles",
                       asked ? "as asked" : "the best makespan where KV may be split",
                       config.device.num_ctas);
  }
  return fmt::format("even cut between items ({})",
                     asked ? "as asked" : "many items a queue, so that one weighs little");
}

std::string why_split(const PlannerConfig& config, Cutting cutting) {
  const planner::ChunkPolicy policy = planner::chunk_policy(config.options);
  switch (cutting) {
    case Cutting::never:
      return config.options.split == SplitMode::none
                 ? "never, as asked"
                 : "nowhere: whole items fill the queues about as evenly";
    case Cutting::while_placing:
      return "where a share ends, unless a piece would cost less than its own overhead";
    case Cutting::balanced:
      return "where an item exceeds the mean queue and its own overhead";
    case Cutting::fixed:
      return fmt::format("every {} KV tokens, rounded up to T_kv{}{}", policy.tokens,
                         policy.lone_blocks_only ? ", of requests that one row block holds" : "",
                         config.options.batch_invariant
                             ? "; tiles and splits of a request depend on its own lengths only"
                             : "");
  }
  return "";
}

}  // namespace

std::string Plan::explain() const {
  const PlannerConfig* config = impl_->config.get();
  if (config == nullptr) return "no plan yet\n";
  const PlanReader reader(*impl_);
  const contract::PlanHeader& header = reader.header();
  const PlanStats s = stats();
  std::string text;
  say(text, "device    {}: {} queues, {:.0f} GB/s, {:.1f} TFLOP/s", config->device.name, s.queues,
      config->device.read_gbps, config->device.matmul_tflops);
  say(text,
      "batch     {} requests, {} query heads on {} KV heads, {} row blocks a KV head, {} KV "
      "tokens read a KV head",
      s.requests, config->heads.qo, config->heads.kv, s.row_blocks, s.kv_tokens_read);
  explain_classes(*config, reader, text);
  say(text, "schedule  {}", why_scheduler(*config, impl_->scheduler, planner::cutting(*impl_)));
  say(text, "split     {}", why_split(*config, planner::cutting(*impl_)));
  say(text,
      "          {:.1f} % of row blocks split, {} merges of {} partial slots ({} rows each); "
      "the rest is written through",
      100.0 * s.split_share, s.merges, s.partial_slots, header.slot_rows);
  say(text, "queues    predicted {:.1f} us the longest, {:.1f} us the mean, balance {:.3f}",
      s.longest_queue_us, s.mean_queue_us, s.balance);
  say(text, "bytes     plan {}, workspace {} with partial states", s.plan_bytes, s.workspace_bytes);
  return text;
}

}  // namespace trencadis
