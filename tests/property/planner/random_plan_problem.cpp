#include "property/planner/random_plan_problem.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace trencadis::testing {
namespace {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  /// Uniform in [low, high].
  std::int32_t in(std::int32_t low, std::int32_t high) {
    return std::uniform_int_distribution<std::int32_t>(low, high)(engine_);
  }
  bool chance(int percent) { return in(1, 100) <= percent; }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[in(0, static_cast<std::int32_t>(values.size()) - 1)];
  }
  /// Often 0 or 1, sometimes long.
  std::int32_t length(std::int32_t high) {
    return chance(15) ? 0 : chance(25) ? 1 : in(1, chance(70) ? std::max(1, high / 8) : high);
  }

 private:
  std::mt19937_64 engine_;
};

DeviceLimits random_device(Random& random) {
  const auto known = known_devices();
  DeviceLimits device =
      known[static_cast<std::size_t>(random.in(0, static_cast<std::int32_t>(known.size()) - 1))];
  if (random.chance(60)) device.num_ctas = random.in(1, 12);
  if (random.chance(30)) device.l2_bytes = random.one_of({0, 1, 1 << 16, 1 << 19});
  if (random.chance(20)) device.max_query_tile = random.one_of({1, 16, 64, 100});
  if (random.chance(20)) device.item_overhead_us = random.one_of({0.0, 0.01, 20.0});
  if (random.chance(20)) device.tile_overhead_us = random.one_of({0.0, 5.0});
  return device;
}

PlanOptions random_options(Random& random) {
  PlanOptions options;
  options.split = random.one_of(
      {SplitMode::automatic, SplitMode::automatic, SplitMode::none, SplitMode::fixed});
  if (options.split == SplitMode::fixed) options.fixed_split_tokens = random.in(1, 300);
  options.batch_invariant = random.chance(20);
  if (options.batch_invariant && options.split == SplitMode::automatic && random.chance(70)) {
    options.fixed_split_tokens = random.in(1, 300);
  }
  options.scheduler = random.one_of(
      {Scheduler::automatic, Scheduler::even_cut, Scheduler::longest_first, Scheduler::l2_windows});
  return options;
}

/// Pages of a block row over `keys` keys: all of them, or a random part with positions.
void add_row(Random& random, bool mapped, std::int32_t keys, BlockSparse& matrix) {
  const auto page = static_cast<std::int32_t>(matrix.block_cols);
  const std::int32_t columns = (keys + page - 1) / page;
  std::int32_t tokens = 0;
  for (std::int32_t column = 0; column < columns; ++column) {
    if (mapped && random.chance(40)) continue;
    matrix.indices.push_back(random.in(0, 1 << 20));
    if (mapped) matrix.positions.push_back(column);
    tokens += std::min(page, keys - column * page);
  }
  matrix.kv_lens.push_back(tokens);
  // A page that is allocated and not yet used.
  if (!mapped && random.chance(10)) matrix.indices.push_back(-1);
  matrix.indptr.push_back(static_cast<std::int32_t>(matrix.indices.size()));
}

void add_storage(Random& random, PlanProblem& problem) {
  BlockSparse& matrix = problem.matrix;
  matrix.block_cols = random.one_of<std::int64_t>({1, 2, 3, 5, 16, 64, 128});
  matrix.indptr = {0};
  const bool own_rows = random.chance(25);
  const bool mapped = random.chance(own_rows ? 70 : 20);
  if (own_rows) matrix.row_indptr = {0};
  for (std::size_t b = 0; b < problem.kv_lens.size(); ++b) {
    std::int32_t token = problem.qo_indptr[b];
    const std::int32_t end = problem.qo_indptr[b + 1];
    do {
      const std::int32_t next = own_rows ? std::min(end, token + random.in(1, 40)) : end;
      if (own_rows) {
        matrix.row_indptr.push_back(next);
        matrix.row_requests.push_back(static_cast<std::int32_t>(b));
      }
      add_row(random, mapped, problem.kv_lens[b], matrix);
      token = next;
    } while (token < end);
  }
}

template <class To>
IndexSpan widen(const std::vector<std::int32_t>& from, To& to) {
  to.assign(from.begin(), from.end());
  return to;
}

}  // namespace

PlanProblem random_plan_problem(std::uint64_t seed) {
  Random random(seed);
  PlanProblem problem;
  problem.heads.kv = random.in(1, 4);
  problem.heads.qo = problem.heads.kv * random.one_of({1, 2, 3, 4, 7, 8, 16, 40, 128, 130});
  problem.spec.head_dim_qk = random.one_of({64, 128, 192, 256});
  problem.spec.head_dim_vo = random.one_of({0, 128});
  problem.device = random_device(random);
  problem.options = random_options(random);
  if (random.chance(60)) problem.spec.variant.bounds.right = random.one_of({0, 0, 1, 50});
  if (random.chance(30)) problem.spec.variant.bounds.left = random.one_of({0, 1, 63, 64, 200});
  const std::int32_t batch = random.chance(5) ? 0 : random.in(1, 7);
  const bool decode = random.chance(30);
  const std::int32_t query = decode ? random.in(1, 2) : random.one_of({3, 40, 150});
  for (std::int32_t b = 0; b < batch; ++b) {
    const std::int32_t tokens = decode && random.chance(90) ? query : random.length(query);
    problem.qo_indptr.push_back(problem.qo_indptr.back() + tokens);
    problem.kv_lens.push_back(random.length(random.one_of({100, 700})));
  }
  add_storage(random, problem);
  if (random.chance(15)) {
    for (const std::int32_t keys : problem.kv_lens) {
      problem.prefixes.push_back(random.in(0, keys));
    }
  }
  return problem;
}

PlanInput PlanProblem::input() const {
  PlanInput input{.qo_indptr = qo_indptr, .kv_lens = kv_lens, .kv = matrix.view(), .kv_bounds = {}};
  if (!prefixes.empty()) {
    // Row t sees the prefix and keys up to its own position, so a range of rows ends with its last.
    input.kv_bounds = [this](std::int64_t request, std::int64_t, std::int64_t row_end) {
      const auto b = static_cast<std::size_t>(request);
      const std::int64_t offset = kv_lens[b] - (qo_indptr[b + 1] - qo_indptr[b]);
      return KvRange{0, std::max(prefixes[b], row_end + offset)};
    };
  }
  return input;
}

PlanInput PlanProblem::wide_input(Wide& wide) const {
  PlanInput result = input();
  result.qo_indptr = widen(qo_indptr, wide.qo_indptr);
  result.kv_lens = widen(kv_lens, wide.kv_lens);
  result.kv.row_indptr = widen(matrix.row_indptr, wide.row_indptr);
  result.kv.row_requests = widen(matrix.row_requests, wide.row_requests);
  result.kv.indptr = widen(matrix.indptr, wide.indptr);
  result.kv.indices = widen(matrix.indices, wide.indices);
  result.kv.positions = widen(matrix.positions, wide.positions);
  result.kv.kv_lens = widen(matrix.kv_lens, wide.row_lens);
  return result;
}

std::string PlanProblem::describe() const {
  return fmt::format(
      "heads {}:{}, {} queues, T_q <= {}, bounds {} {}, split {} {} invariant {}, scheduler {}, "
      "page "
      "{}, qo_indptr {}, kv_lens {}, rows {}, row lens {}, prefixes {}",
      heads.qo, heads.kv, device.num_ctas, device.max_query_tile, spec.variant.bounds.left,
      spec.variant.bounds.right, static_cast<int>(options.split), options.fixed_split_tokens,
      options.batch_invariant, static_cast<int>(options.scheduler), matrix.block_cols, qo_indptr,
      kv_lens, matrix.row_indptr, matrix.kv_lens, prefixes);
}

}  // namespace trencadis::testing
