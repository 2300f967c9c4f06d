// The laws of the planner, over random problems. TRENCADIS_TEST_SCALE scales their number; a
// failure prints the seed and the problem.
#include <gtest/gtest.h>
#include <trencadis/trencadis.h>

#include <algorithm>
#include <numeric>

#include "planner/plan_image.h"
#include "planner/plan_impl.h"
#include "planner/plan_reader.h"
#include "planner/planner.h"
#include "planner/workspace.h"
#include "property/planner/image_checker.h"
#include "property/planner/plan_checker.h"
#include "property/planner/random_plan_problem.h"
#include "support/scale.h"

namespace trencadis::testing {
namespace {

using planner::Cutting;
using planner::Nanoseconds;
using planner::PlanReader;

constexpr int kProblems = 10000;

template <class F>
void for_random_problems(int count, F law) {
  for (int seed = 1; seed <= scaled(count); ++seed) {
    const PlanProblem problem = random_plan_problem(static_cast<std::uint64_t>(seed));
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + problem.describe());
    law(problem);
    if (::testing::Test::HasFailure()) return;
  }
}

Plan plan_of(const PlanProblem& problem) {
  return make_plan(problem.spec, problem.heads, problem.device, problem.input(), problem.options);
}

TEST(PlannerLaws, EveryKeyThatARowSeesIsCoveredOnceAndEveryRowIsWritten) {
  for_random_problems(kProblems, [](const PlanProblem& problem) {
    EXPECT_EQ(check_plan(problem, plan_of(problem)), "");
  });
}

TEST(PlannerLaws, EqualInputsGiveEqualBytesWhateverWasPlannedBefore) {
  Plan reused;
  for_random_problems(kProblems, [&reused](const PlanProblem& problem) {
    const Plan fresh = plan_of(problem);
    PlanProblem::Wide wide;
    Planner(problem.spec, problem.heads, problem.device, problem.options)
        .plan(problem.wide_input(wide), reused);
    ASSERT_EQ(fresh.bytes().size(), reused.bytes().size());
    EXPECT_TRUE(std::equal(fresh.bytes().begin(), fresh.bytes().end(), reused.bytes().begin()));
  });
}

/// The image of `plan`, written over bytes of `fill`.
std::vector<std::byte> image_of(const Plan& plan, std::byte fill) {
  const contract::PlanView view = plan.impl().buffer.view();
  const planner::StepArrays step(plan.impl().problem);
  const planner::ImageLayout layout = planner::image_layout(view, step);
  std::vector<std::byte> image(static_cast<std::size_t>(layout.bytes), fill);
  planner::write_image(view, step, layout, image.data());
  return image;
}

TEST(PlannerLaws, AnImageSaysWhatThePlanSaysAndNothingOfTheBytesBefore) {
  for_random_problems(kProblems, [](const PlanProblem& problem) {
    const Plan plan = plan_of(problem);
    const std::vector<std::byte> image = image_of(plan, std::byte{0xff});
    EXPECT_EQ(check_image(plan, image), "");
    EXPECT_EQ(image, image_of(plan, std::byte{0x55}));
  });
}

/// Predicted cost of the row blocks of all heads, had none been split.
Nanoseconds unsplit_cost(const Plan& plan) {
  const PlanReader reader(plan.impl());
  const planner::PlannerConfig& config = *plan.impl().config;
  const planner::WorkRules& rules = config.rules;
  std::vector<std::int64_t> begin(reader.header().num_row_blocks, -1), end(begin.size(), 0);
  reader.for_each([&](int, const contract::WorkSegment&, const contract::WorkItem& item) {
    auto& first = begin[item.row_block];
    first = first < 0 ? item.kv_begin : std::min<std::int64_t>(first, item.kv_begin);
    end[item.row_block] = std::max<std::int64_t>(end[item.row_block], item.kv_end);
  });
  Nanoseconds total = 0;
  for (std::size_t i = 0; i < begin.size(); ++i) {
    if (begin[i] < 0) continue;  // sees no key
    const int tile_class = reader.view().row_blocks()[i].tile_class;
    const std::int64_t tile = rules.tiles.classes[tile_class].kv_tokens;
    total += rules.cost.of(tile_class, (end[i] - begin[i] + tile - 1) / tile);
  }
  return total * config.heads.kv;
}

struct Makespan {
  Nanoseconds longest, share, one_tile, item, tile, split;
};

Makespan makespan(const Plan& plan) {
  const PlanReader reader(plan.impl());
  const planner::WorkRules& rules = plan.impl().config->rules;
  const std::vector<Nanoseconds> loads = reader.loads();
  Makespan m{};
  m.longest = *std::max_element(loads.begin(), loads.end());
  m.share = unsplit_cost(plan) / reader.header().num_queues;
  m.item = rules.cost.item;
  m.tile = *std::max_element(rules.cost.tile.begin(), rules.cost.tile.end());
  m.split = *std::max_element(rules.cost.split.begin(), rules.cost.split.end());
  m.one_tile = m.item + m.tile;
  return m;
}

TEST(PlannerLaws, TheEvenCutStaysWithinTwoSplitsAnOverheadAndATileOfTheLowerBound) {
  int within_four_thirds = 0;
  for_random_problems(kProblems, [&](PlanProblem problem) {
    problem.options = {.scheduler = Scheduler::even_cut};
    const Makespan m = makespan(plan_of(problem));
    // No schedule beats the mean of the unsplit work, nor the longest piece that is not cut.
    const Nanoseconds lower_bound = std::max(m.share, m.one_tile);
    EXPECT_LE(m.longest, lower_bound + 2 * m.split + m.item + m.tile + 1);
    // So where a queue holds enough to cut it finely, the makespan is within 4/3.
    if (m.share >= 3 * (2 * m.split + m.item + m.tile)) {
      ++within_four_thirds;
      EXPECT_LE(3 * m.longest, 4 * lower_bound + 3);
    }
  });
  EXPECT_GT(within_four_thirds, scaled(kProblems) / 50) << "the regime of the law is hardly met";
}

TEST(PlannerLaws, PlacedItemsOverrunTheMeanByOneItemAtMost) {
  for_random_problems(kProblems, [](const PlanProblem& problem) {
    if (planner::cutting(problem.options) == Cutting::while_placing) return;
    const Plan plan = plan_of(problem);
    const PlanReader reader(plan.impl());
    const std::vector<Nanoseconds> loads = reader.loads();
    const Nanoseconds total = std::accumulate(loads.begin(), loads.end(), Nanoseconds{0});
    Nanoseconds longest_item = 0;
    std::vector<Nanoseconds> shortest(loads.size(), std::numeric_limits<Nanoseconds>::max());
    reader.for_each([&](int q, const contract::WorkSegment&, const contract::WorkItem& item) {
      longest_item = std::max(longest_item, reader.cost(item));
      shortest[q] = std::min(shortest[q], reader.cost(item));
    });
    const auto queues = static_cast<Nanoseconds>(loads.size());
    for (std::size_t q = 0; q < loads.size(); ++q) {
      if (loads[q] == 0) continue;
      const Scheduler used = plan.impl().scheduler;
      const Nanoseconds item = used == Scheduler::longest_first ? shortest[q] : longest_item;
      const Nanoseconds width =
          used == Scheduler::l2_windows ? longest_item / planner::L2Windows::kResolution : 0;
      EXPECT_LE(loads[q], total / queues + 1 + item + width);
    }
  });
}

TEST(PlannerLaws, WhatIsDealtInsteadOfCutEndsWithTheEvenShare) {
  int dealt = 0;
  for_random_problems(kProblems, [&](PlanProblem problem) {
    problem.options = {};
    const Plan plan = plan_of(problem);
    if (plan.impl().scheduler != Scheduler::l2_windows) return;
    ++dealt;
    const Makespan m = makespan(plan);
    EXPECT_EQ(plan.stats().partial_slots, 0);
    EXPECT_LE(m.longest, (m.share + m.item + 1) * (100 + planner::kDealtOverrunPercent) / 100);
  });
  EXPECT_GT(dealt, scaled(kProblems) / 100) << "the regime of the law is hardly met";
}

TEST(PlannerLaws, AutomaticSplitsFillAtMostTwoSlotsAQueue) {
  for_random_problems(kProblems, [](PlanProblem problem) {
    for (const Scheduler scheduler : {Scheduler::automatic, Scheduler::even_cut,
                                      Scheduler::longest_first, Scheduler::l2_windows}) {
      problem.options = {.scheduler = scheduler};
      EXPECT_LE(plan_of(problem).stats().partial_slots, 2 * problem.device.num_ctas);
    }
  });
}

TEST(PlannerLaws, EveryPlanWithinTheLimitsFitsTheWorkspaceBound) {
  for_random_problems(kProblems, [](const PlanProblem& problem) {
    // The tightest limits that the problem respects.
    const Limits limits{.max_batch = std::max<std::int64_t>(1, std::ssize(problem.kv_lens)),
                        .max_qo_tokens = std::max(1, problem.qo_indptr.back()),
                        .max_pages = std::max(1, problem.matrix.indptr.back()),
                        .max_kv_tokens = std::max(
                            1, problem.kv_lens.empty() ? 1
                                                       : *std::max_element(problem.kv_lens.begin(),
                                                                           problem.kv_lens.end()))};
    planner::Planner planner(problem.spec, problem.heads, problem.device, problem.options);
    const planner::WorkspaceLayout bound =
        planner::workspace_bound(planner.config(), limits, problem.matrix.block_cols);
    Plan plan;
    planner.plan(problem.input(), limits, plan);
    EXPECT_TRUE(planner::fits(plan, bound))
        << planner::workspace_of(plan).total_bytes << " of " << bound.total_bytes << " bytes";
  });
}

/// The problem with requests of `rows` query tokens and no key in front of, between and behind its
/// own; `place` is where each of its own requests is then.
PlanProblem padded(const PlanProblem& problem, std::int32_t rows, std::vector<int>& place) {
  PlanProblem result = problem;
  result.qo_indptr = {0};
  result.kv_lens.clear();
  BlockSparse& matrix = result.matrix;
  matrix.indptr = {0};
  matrix.kv_lens.clear();
  place.clear();
  const auto add = [&](std::int32_t query, std::int32_t keys, std::int32_t blocks) {
    result.qo_indptr.push_back(result.qo_indptr.back() + query);
    result.kv_lens.push_back(keys);
    matrix.kv_lens.push_back(keys);
    matrix.indptr.push_back(matrix.indptr.back() + blocks);
  };
  for (std::size_t b = 0; b < problem.kv_lens.size(); ++b) {
    add(rows, 0, 0);
    if (b % 2 == 0) add(rows + 1, 0, 0);
    place.push_back(static_cast<int>(result.kv_lens.size()));
    add(problem.qo_indptr[b + 1] - problem.qo_indptr[b], problem.kv_lens[b],
        problem.matrix.indptr[b + 1] - problem.matrix.indptr[b]);
  }
  add(rows, 0, 0);
  return result;
}

/// (queue, request, head, first row, first key, last key, slot), in the order of the queues.
std::vector<std::array<std::int64_t, 7>> spans_of(const Plan& plan,
                                                  const std::vector<int>& place = {}) {
  std::vector<std::array<std::int64_t, 7>> spans;
  for (const PlanSpan& s : plan.timeline()) {
    const auto at = std::find(place.begin(), place.end(), s.request) - place.begin();
    spans.push_back({s.queue, place.empty() ? s.request : at, s.kv_head, s.row_begin, s.kv_begin,
                     s.kv_end, s.partial_slot});
  }
  return spans;
}

// E5: the same pieces on the same queues, so the same bits, in every mode.
TEST(PlannerLaws, RequestsWithoutKeysMoveNothing) {
  for_random_problems(kProblems / 4, [](const PlanProblem& problem) {
    if (!problem.matrix.row_indptr.empty() || !problem.matrix.positions.empty()) return;
    if (!problem.prefixes.empty() || problem.matrix.kv_lens != problem.kv_lens) return;
    const Plan alone = plan_of(problem);
    for (const std::int32_t rows : {1, 150}) {
      std::vector<int> place;
      const PlanProblem with_padding = padded(problem, rows, place);
      const Plan together = plan_of(with_padding);
      EXPECT_EQ(spans_of(together, place), spans_of(alone));
      EXPECT_EQ(together.stats().partial_slots, alone.stats().partial_slots);
      EXPECT_EQ(check_plan(with_padding, together), "");
    }
  });
}

TEST(PlannerLaws, ABatchInvariantRequestHasTheSplitsOfItsSoloRun) {
  for_random_problems(kProblems / 4, [](PlanProblem problem) {
    problem.options.batch_invariant = true;
    if (!problem.matrix.row_indptr.empty() || !problem.matrix.positions.empty()) return;
    if (problem.matrix.kv_lens != problem.kv_lens) return;  // a view that lost all its blocks
    problem.prefixes.clear();
    const auto spans_of = [](const Plan& plan, int request) {
      std::vector<std::array<std::int64_t, 5>> spans;
      for (const PlanSpan& s : plan.timeline()) {
        if (s.request == request) {
          spans.push_back({s.kv_head, s.row_begin, s.row_end, s.kv_begin, s.kv_end});
        }
      }
      std::sort(spans.begin(), spans.end());
      return spans;
    };
    const Plan together = plan_of(problem);
    for (std::size_t b = 0; b < problem.kv_lens.size(); ++b) {
      PlanProblem solo = problem;
      solo.qo_indptr = {0, problem.qo_indptr[b + 1] - problem.qo_indptr[b]};
      solo.kv_lens = {problem.kv_lens[b]};
      solo.matrix.kv_lens = solo.kv_lens;
      solo.matrix.indptr = {0, problem.matrix.indptr[b + 1] - problem.matrix.indptr[b]};
      EXPECT_EQ(spans_of(together, static_cast<int>(b)), spans_of(plan_of(solo), 0));
    }
  });
}

}  // namespace
}  // namespace trencadis::testing
