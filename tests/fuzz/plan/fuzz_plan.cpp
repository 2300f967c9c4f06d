// Arbitrary bytes as the arrays of plan(): a typed error, or a plan that obeys every law.
#include <trencadis/error.h>
#include <trencadis/plan.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "property/planner/plan_checker.h"

namespace {

using namespace trencadis;
using trencadis::testing::PlanProblem;

/// Takes values off the front; zeros once the input is used up.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), end_(data + size) {}

  std::uint8_t byte() { return data_ == end_ ? std::uint8_t{0} : *data_++; }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[byte() % values.size()];
  }
  /// Small for the most part, sometimes negative, sometimes of any size.
  std::int32_t value() {
    const std::uint8_t first = byte();
    if (first < 0xe0) return first;
    if (first < 0xf0) return static_cast<std::int8_t>(byte());
    std::uint32_t bits = 0;
    for (int i = 0; i < 4; ++i) bits = bits << 8 | byte();
    return static_cast<std::int32_t>(bits);
  }
  std::vector<std::int32_t> values(std::size_t count) {
    std::vector<std::int32_t> result(count);
    for (std::int32_t& x : result) x = value();
    return result;
  }
  /// `count` + 1 entries: the sums of small steps, or anything.
  std::vector<std::int32_t> indptr(std::size_t count) {
    const bool wild = byte() >= 0xf0;
    std::vector<std::int32_t> result = values(count + 1);
    if (wild) return result;
    std::int32_t sum = 0;
    for (std::int32_t& x : result) {
      const std::int32_t step = x & 63;
      x = sum;
      sum += step;
    }
    return result;
  }

 private:
  const std::uint8_t* data_;
  const std::uint8_t* end_;
};

PlanProblem read_problem(Input& input) {
  PlanProblem problem;
  problem.heads.kv = 1 + input.byte() % 4;
  problem.heads.qo = problem.heads.kv * (1 + input.byte() % 9);
  problem.device = known_devices()[input.byte() % known_devices().size()];
  problem.device.num_ctas = 1 + input.byte() % 20;
  problem.options.split = input.one_of({SplitMode::automatic, SplitMode::none, SplitMode::fixed});
  problem.options.scheduler = input.one_of(
      {Scheduler::automatic, Scheduler::even_cut, Scheduler::longest_first, Scheduler::l2_windows});
  problem.options.batch_invariant = input.byte() % 4 == 0;
  problem.options.fixed_split_tokens = input.one_of({0, 1, 64, 100, -1});
  problem.spec.variant.bounds = {input.one_of({-1, 0, 5, 70}), input.one_of({-1, 0, 3})};

  const std::size_t batch = input.byte() % 8;
  problem.qo_indptr = input.indptr(batch);
  problem.kv_lens = input.values(batch);
  BlockSparse& matrix = problem.matrix;
  matrix.block_cols = input.one_of({1, 4, 16, 0});
  const bool own_rows = input.byte() % 4 == 0;
  const std::size_t rows = own_rows ? input.byte() % 12 : batch;
  if (own_rows) {
    matrix.row_indptr = input.indptr(rows);
    matrix.row_requests = input.values(rows);
  }
  matrix.indptr = input.indptr(rows);
  matrix.kv_lens = own_rows || input.byte() % 4 == 0 ? input.values(rows) : problem.kv_lens;
  const std::int32_t entries = std::clamp(matrix.indptr.back(), 0, 1000);
  if (input.byte() % 2 == 0) matrix.indices.assign(static_cast<std::size_t>(entries), 7);
  if (input.byte() % 4 == 0) matrix.positions = input.indptr(static_cast<std::size_t>(entries));
  return problem;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const PlanProblem problem = read_problem(input);
  // Memory and the checker's time; what exceeds them must be refused.
  const Limits limits{.max_batch = 8, .max_qo_tokens = 512, .max_pages = 0, .max_kv_tokens = 4096};
  Plan plan;
  try {
    Planner(problem.spec, problem.heads, problem.device, problem.options, limits)
        .plan(problem.input(), plan);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::internal) std::abort();
    return 0;
  }
  const std::string broken = trencadis::testing::check_plan(problem, plan);
  if (!broken.empty()) {
    std::fprintf(stderr, "broken: %s\n%s\n", broken.c_str(), problem.describe().c_str());
    std::abort();
  }
  return 0;
}
