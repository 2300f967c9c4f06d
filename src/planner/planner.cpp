#include "planner/planner.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace trencadis::planner {
namespace {

using base::check;
using contract::WorkItem;

constexpr std::int64_t kInvariantSplitTokens = 2048;

void check_device(const DeviceLimits& device) {
  check(device.num_ctas >= 1 && device.num_ctas <= (1 << 20),
        "device.num_ctas is {}, expected 1 .. {}", device.num_ctas, 1 << 20);
  check(device.read_gbps > 0 && device.matmul_tflops > 0,
        "device rates are {} GB/s and {} TFLOP/s, expected more than 0", device.read_gbps,
        device.matmul_tflops);
  check(device.item_overhead_us >= 0 && device.tile_overhead_us >= 0,
        "device overheads are {} and {} us, expected at least 0", device.item_overhead_us,
        device.tile_overhead_us);
  check(device.max_query_tile >= 1, "device.max_query_tile is {}, expected at least 1",
        device.max_query_tile);
  check(device.max_kv_tile >= 32, "device.max_kv_tile is {}, expected at least 32",
        device.max_kv_tile);
  check(device.min_kv_tile == 32 || device.min_kv_tile == 64 || device.min_kv_tile == 128,
        "device.min_kv_tile is {}, expected 32, 64 or 128", device.min_kv_tile);
  check(device.min_kv_tile <= device.max_kv_tile,
        "device.min_kv_tile is {}, expected at most device.max_kv_tile = {}", device.min_kv_tile,
        device.max_kv_tile);
  check(device.tile_memory >= 0, "device.tile_memory is {}, expected at least 0",
        device.tile_memory);
  check(device.l2_bytes >= 0, "device.l2_bytes is {}, expected at least 0", device.l2_bytes);
}

void check_spec(const AttentionSpec& spec) {
  check(spec.head_dim_qk >= 1, "head_dim_qk is {}, expected at least 1", spec.head_dim_qk);
  check(spec.vo() >= 1, "head_dim_vo is {}, expected at least 1", spec.vo());
  const auto check_bound = [](const char* side, std::int64_t bound) {
    check(bound >= -1 && bound <= MaskBounds::kMost,
          "variant.bounds.{} is {}, expected -1 or more, at most 2^62", side, bound);
  };
  check_bound("left", spec.variant.bounds.left);
  check_bound("right", spec.variant.bounds.right);
}

void check_options(const PlanOptions& options) {
  const bool fixed = options.split == SplitMode::fixed;
  check(!fixed || options.fixed_split_tokens > 0,
        "fixed_split_tokens is {}, expected more than 0 with SplitMode::fixed",
        options.fixed_split_tokens);
  check(fixed || options.batch_invariant || options.fixed_split_tokens == 0,
        "fixed_split_tokens is {}, expected 0 without SplitMode::fixed or batch_invariant",
        options.fixed_split_tokens);
  check(options.fixed_split_tokens >= 0, "fixed_split_tokens is {}, expected at least 0",
        options.fixed_split_tokens);
}

/// Costs are summed in 63 bits; what cannot be is refused, from the longest request alone.
void check_total_cost(const Problem& problem, const PlannerConfig& config, std::int32_t blocks) {
  const TilePolicy& tiles = config.rules.tiles;
  double slowest = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(tiles.count); ++i) {
    const double count = problem.max_kv_len() / double(tiles.classes[i].kv_tokens) + 1;
    slowest = std::max(slowest, count * double(config.rules.cost.tile[i]));
  }
  const double total = (slowest + double(config.rules.cost.item)) * blocks * config.heads.kv;
  if (total >= double(std::numeric_limits<Nanoseconds>::max() / 4)) {
    base::fail(
        ErrorKind::out_of_capacity,
        "{} row blocks over up to {} KV tokens and {} KV heads are predicted to take {:.3g} s, "
        "more than a plan can count",
        blocks, problem.max_kv_len(), config.heads.kv, total * 1e-9);
  }
}

void check_count(std::string_view what, std::int64_t count) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  if (count > kMax) {
    base::fail(ErrorKind::out_of_capacity,
               "the batch makes {} {} with these options, a plan holds at most {}", count, what,
               kMax);
  }
}

}  // namespace

void check_heads(Heads heads, std::string_view qo_name, std::string_view kv_name) {
  constexpr int kMaxHeads = 1 << 16;  // counts of (item, head) pairs and of cost stay far from 2^63
  check(heads.kv >= 1, "{} is {}, expected 1 or more", kv_name, heads.kv);
  check(heads.qo >= 1 && heads.qo <= kMaxHeads && heads.qo % heads.kv == 0,
        "{} is {}, expected a positive multiple of {} = {}, at most {}", qo_name, heads.qo, kv_name,
        heads.kv, kMaxHeads);
}

Cutting cutting(const PlanOptions& options) {
  if (options.split == SplitMode::none) return Cutting::never;
  if (options.split == SplitMode::fixed || options.batch_invariant) return Cutting::fixed;
  const bool cuts_itself =
      options.scheduler == Scheduler::automatic || options.scheduler == Scheduler::even_cut;
  return cuts_itself ? Cutting::while_placing : Cutting::balanced;
}

Cutting cutting(const Plan::Impl& plan) {
  const Cutting asked = cutting(plan.config->options);
  if (asked != Cutting::while_placing || plan.scheduler == Scheduler::even_cut) return asked;
  return plan.scheduler == Scheduler::longest_first ? Cutting::balanced : Cutting::never;
}

bool may_deal(const PlannerConfig& config) {
  const auto& bound_by_products = config.rules.cost.bound_by_products;
  return config.options.scheduler == Scheduler::automatic && config.device.l2_bytes > 0 &&
         cutting(config.options) == Cutting::while_placing &&
         std::find(bound_by_products.begin(), bound_by_products.end(), true) !=
             bound_by_products.end();
}

ChunkPolicy chunk_policy(const PlanOptions& options) {
  const bool given = options.fixed_split_tokens > 0;
  return {.tokens = given ? options.fixed_split_tokens : kInvariantSplitTokens,
          .lone_blocks_only = options.split != SplitMode::fixed};
}

Planner::Planner(const AttentionSpec& spec, Heads heads, const DeviceLimits& device,
                 const PlanOptions& options) {
  check_device(device);
  check_heads(heads, "heads.qo", "heads.kv");
  check_spec(spec);
  check_options(options);
  const TilePolicy tiles = choose_tiles(spec, device);
  config_ = std::make_shared<const PlannerConfig>(
      PlannerConfig{.spec = spec,
                    .heads = heads,
                    .device = device,
                    .options = options,
                    .rules = {.group = heads.group(),
                              .bounds = spec.variant.bounds,
                              .tiles = tiles,
                              .cost = make_cost_model(spec, device, tiles)}});
  cutting_ = cutting(options);
  may_deal_ = may_deal(*config_);
  schedule_.num_heads = heads.kv;
  schedule_.num_queues = device.num_ctas;
}

void Planner::plan(const PlanInput& input, const Limits& limits, Plan& plan) {
  Plan::Impl& out = plan.impl();
  out.problem.assign(input, config_->rules.group);
  out.problem.check_limits(limits);
  const std::int32_t row_blocks = count_row_blocks(out.problem, config_->rules);
  check_total_cost(out.problem, *config_, row_blocks);

  out.buffer.start(config_->device.num_ctas, row_blocks);
  HeadWork work = list_work(input, row_blocks, out);
  schedule_.merges.set_size(0);
  schedule_.num_slots = 0;
  schedule_.slot_rows = 0;
  Cutting how = cutting_;
  if (how == Cutting::while_placing && is_short(work)) {
    // The whole items make room for the chunks.
    WorkItem* const whole = whole_items_.room(work.num_items);
    std::copy_n(work.items, work.num_items, whole);
    work.items = whole;
    how = Cutting::balanced;
  }
  if (how == Cutting::fixed || how == Cutting::balanced) work = split_items(how, work, out.buffer);
  schedule_.queues = out.buffer.queues();
  const bool dealt = how == Cutting::while_placing && deal(out.problem, work);
  finish(dealt ? Scheduler::l2_windows : place(how, work), out);
}

bool Planner::is_short(const HeadWork& whole) const {
  return config_->options.scheduler == Scheduler::automatic && whole.num_items > 0 &&
         whole.total() * schedule_.num_heads <
             kShortQueueOverheads * config_->rules.cost.item * schedule_.num_queues;
}

/// Whole items go straight into the plan, unless they are to be split first.
HeadWork Planner::list_work(const PlanInput& input, std::int32_t row_blocks, Plan::Impl& plan) {
  const bool in_place = cutting_ == Cutting::never || cutting_ == Cutting::while_placing;
  if (in_place) {
    // Two pieces a queue, and the one that EvenCut writes and does not keep.
    plan.buffer.reserve_items(row_blocks + std::int64_t{2} * config_->device.num_ctas + 1);
  }
  Nanoseconds* const line = line_.room(row_blocks + std::int64_t{1});
  HeadWork work{.blocks = plan.buffer.row_blocks(),
                .items = in_place ? plan.buffer.items() : whole_items_.room(row_blocks),
                .line = line};
  work.num_items = build_work_list(plan.problem, config_->rules, input,
                                   {plan.buffer.row_blocks(), work.items, line});
  plan.buffer.header().num_empty_row_blocks = row_blocks - work.num_items;
  return work;
}

ChunkRule Planner::chunk_rule(Cutting how, const HeadWork& whole) const {
  const WorkRules& rules = config_->rules;
  if (how == Cutting::balanced) {
    return balanced_chunks(whole, schedule_.num_heads, schedule_.num_queues, rules.tiles,
                           rules.cost);
  }
  const ChunkPolicy policy = chunk_policy(config_->options);
  ChunkRule rule = fixed_chunks(rules.tiles, policy.tokens);
  rule.lone_blocks_only = policy.lone_blocks_only;
  return rule;
}

HeadWork Planner::split_items(Cutting how, const HeadWork& whole, PlanBuffer& buffer) {
  const WorkRules& rules = config_->rules;
  const ChunkRule rule = chunk_rule(how, whole);
  const ChunkCount count = count_chunks(whole, rules.tiles, rule);
  check_count("work items a KV head", count.items);
  check_count("partial slots", count.slots * schedule_.num_heads);
  buffer.reserve_items(count.items);
  HeadWork from = whole;
  from.blocks = buffer.row_blocks();  // which reserve_items may have moved
  return split(from, rules.tiles, rules.cost, rule, count.merges, buffer.items(),
               chunk_line_.room(count.items + 1), schedule_);
}

/// Whether most of the cost is of row blocks that share K and V with another of their request, in
/// tiles that products bound where they come from L2.
bool Planner::gains_from_l2(const Problem& problem, const HeadWork& whole) const {
  const WorkRules& rules = config_->rules;
  const std::int64_t tokens = problem.common_query_len();
  if (tokens >= 0 && tokens * rules.group <= rules.tiles.largest_query_tile()) return false;
  Nanoseconds gains = 0;
  bool shared = false;  // with the row block before
  for (std::int32_t i = 0; i < whole.num_items; ++i) {
    const contract::RowBlock& block = whole.blocks[i];
    const bool goes_on = i + 1 < whole.num_items && whole.blocks[i + 1].request == block.request;
    if ((shared || goes_on) && rules.cost.bound_by_products[block.tile_class])
      gains += whole.cost(i);
    shared = goes_on;
  }
  return gains > whole.total() / 2;
}

/// Half of L2: the rest is for what ends and begins meanwhile, for queries and for outputs.
std::int64_t Planner::window_tokens() const {
  const AttentionSpec& spec = config_->spec;
  const std::int64_t token = std::int64_t{spec.head_dim_qk + spec.vo()} * size_of(spec.dtype_kv);
  const std::int64_t l2_bytes = config_->device.l2_bytes;
  return l2_bytes == 0 ? std::numeric_limits<std::int64_t>::max() : l2_bytes / 2 / token;
}

/// Deals whole items where they gain from it and queues end about as early as by the even cut.
bool Planner::deal(const Problem& problem, const HeadWork& whole) {
  const std::int64_t queues = schedule_.num_queues;
  const std::int64_t pairs = std::int64_t{whole.num_items} * schedule_.num_heads;
  if (!may_deal_ || pairs < kMinDealtPairs * queues || pairs > kMaxDealtPairs * queues)
    return false;
  if (!gains_from_l2(problem, whole)) return false;
  const Nanoseconds longest =
      l2_windows_.deal(whole, schedule_.num_heads, schedule_.num_queues, window_tokens());
  const Nanoseconds even = whole.total() * schedule_.num_heads / queues + config_->rules.cost.item;
  if (longest > even + even / 100 * kDealtOverrunPercent) return false;
  l2_windows_.write(whole, schedule_);
  return true;
}

Scheduler Planner::place(Cutting how, const HeadWork& work) {
  if (how == Cutting::while_placing) {
    even_cut_.cut_evenly(work, config_->rules.tiles, config_->rules.cost, schedule_);
    return Scheduler::even_cut;
  }
  Scheduler used = config_->options.scheduler;
  const std::int64_t pairs = std::int64_t{work.num_items} * schedule_.num_heads;
  if (used == Scheduler::automatic) {
    used = pairs <= kLongestFirstPairs * schedule_.num_queues ? Scheduler::longest_first
                                                              : Scheduler::even_cut;
  }
  if (used == Scheduler::longest_first) {
    check_count("pairs of work item and KV head", pairs);
    longest_first_.place(work, schedule_);
  } else if (used == Scheduler::l2_windows) {
    check_count("pairs of work item and KV head", pairs);
    l2_windows_.deal(work, schedule_.num_heads, schedule_.num_queues, window_tokens());
    l2_windows_.write(work, schedule_);
  } else {
    even_cut_.cut_between_items(work, schedule_);
  }
  return used;
}

void Planner::finish(Scheduler used, Plan::Impl& plan) const {
  plan.config = config_;
  plan.scheduler = used;
  plan.num_requests = plan.problem.num_requests();
  plan.buffer.finish(schedule_.num_items, schedule_.segments.values(), schedule_.merges.values());
  contract::PlanHeader& header = plan.buffer.header();
  const TilePolicy& tiles = config_->rules.tiles;
  header.num_tile_classes = tiles.count;
  std::copy(tiles.classes.begin(), tiles.classes.end(), header.tile_classes);
  header.num_slots = schedule_.num_slots;
  header.slot_rows = schedule_.slot_rows;
}

}  // namespace trencadis::planner
