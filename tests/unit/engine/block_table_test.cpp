// What a block table says of the pool that it reads, against a loop over every token.
#include <gtest/gtest.h>
#include <trencadis/error.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "engine/validate.h"
#include "planner/problem.h"
#include "support/scale.h"

namespace trencadis::engine {
namespace {

/// Requests of one query token each; every row owns `spare` blocks more than its tokens need.
struct Table {
  Table(std::int64_t page_size, const std::vector<std::int32_t>& lengths, std::int32_t spare)
      : kv_lens(lengths) {
    input.kv.block_cols = page_size;
    for (const std::int32_t tokens : lengths) {
      qo_indptr.push_back(qo_indptr.back() + 1);
      const auto used = static_cast<std::int32_t>((tokens + page_size - 1) / page_size);
      indptr.push_back(indptr.back() + used + spare);
    }
    indices.resize(static_cast<std::size_t>(indptr.back()));
  }

  PlanFacts read() {
    input.qo_indptr = qo_indptr;
    input.kv_lens = input.kv.kv_lens = kv_lens;
    input.kv.indptr = indptr;
    input.kv.indices = indices;
    problem.assign(input, 1);
    return read_block_table(problem, indices.empty());
  }

  PlanFacts expected() const {
    PlanFacts facts;
    for (std::size_t row = 0; row < kv_lens.size(); ++row) {
      for (std::int64_t token = 0; token < kv_lens[row]; ++token) {
        const std::int64_t block = indptr[row] + token / input.kv.block_cols;
        const std::int64_t id = indices.empty() ? block : indices[static_cast<std::size_t>(block)];
        facts.blocks_used = std::max(facts.blocks_used, id + 1);
        facts.tokens_used =
            std::max(facts.tokens_used, id * input.kv.block_cols + token % input.kv.block_cols + 1);
      }
    }
    return facts;
  }

  std::vector<std::int32_t> qo_indptr{0}, indptr{0}, indices, kv_lens;
  PlanInput input;
  planner::Problem problem;
};

void expect_facts(Table& table) {
  const PlanFacts facts = table.read(), expected = table.expected();
  EXPECT_EQ(facts.nnz_q, static_cast<std::int64_t>(table.kv_lens.size()));
  EXPECT_EQ(facts.block_cols, table.input.kv.block_cols);
  EXPECT_EQ(facts.blocks_used, expected.blocks_used);
  EXPECT_EQ(facts.tokens_used, expected.tokens_used);
}

TEST(BlockTable, FactsAreThoseOfEveryToken) {
  std::mt19937 random(1);
  const auto below = [&](unsigned bound) { return static_cast<std::int32_t>(random() % bound); };
  for (int round = 0; round < testing::scaled(300); ++round) {
    std::vector<std::int32_t> lengths(static_cast<std::size_t>(below(9)));
    for (std::int32_t& length : lengths) length = below(3) == 0 ? 4 * below(30) : below(120);
    Table table(1 + below(5), lengths, below(3) == 0 ? 1 : 0);
    // Few ids, so that the largest is often the last of a row, and of several.
    const auto most = static_cast<unsigned>(1 + below(40));
    for (std::int32_t& id : table.indices) id = below(most);
    expect_facts(table);
    table.indices.clear();
    expect_facts(table);
  }
}

TEST(BlockTable, TheLargestIdCountsWhereverItLies) {
  for (std::size_t at = 0; at < 67; ++at) {
    Table table(1, {40, 27}, 0);
    table.indices[at] = 2'000'000'000;
    expect_facts(table);
  }
}

TEST(BlockTable, AnIdThatIsPartlyFilledReachesLessFar) {
  Table table(4, {6, 7}, 0);
  table.indices = {1, 5, 2, 5};
  EXPECT_EQ(table.read().tokens_used, 5 * 4 + 3);
  table.indices[2] = 5;
  EXPECT_EQ(table.read().tokens_used, 6 * 4) << "full in another row";
}

TEST(BlockTable, SpareEntriesAreNotLookedAt) {
  Table table(4, {16, 5}, 1);
  table.indices = {3, 2, 1, 0, -7, 4, 5, 1'000'000};
  expect_facts(table);
}

TEST(BlockTable, ANegativeIdIsNamed) {
  for (std::size_t at = 0; at < 42; ++at) {
    Table table(16, {16 * 40, 20}, 0);
    table.indices[at] = -static_cast<std::int32_t>(at) - 1;
    try {
      table.read();
      ADD_FAILURE() << at;
    } catch (const Error& error) {
      const std::string row = at < 40 ? "0" : "1";
      EXPECT_EQ(std::string(error.what())
                    .find("kv_indices[" + std::to_string(at) + "] is " +
                          std::to_string(table.indices[at]) + " (block row " + row + ")"),
                0u)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace trencadis::engine
