// V1, V2, V5 and P7 of the failure cases, at the planner.
#include <gtest/gtest.h>

#include <limits>

#include "support/expect_error.h"
#include "unit/planner/plan_cases.h"

namespace trencadis::testing {
namespace {

class Validation : public ::testing::Test {
 protected:
  void expect_refused(std::initializer_list<std::string> texts, Limits limits = {},
                      ErrorKind kind = ErrorKind::invalid_argument) {
    expect_error(kind, texts, [&] {
      Plan plan;
      Planner(causal_spec(), Heads{32, 8}, known_device("h200"), {}, limits)
          .plan(input.kv.indptr.empty() ? batch.input() : input, plan);
    });
  }

  Batch batch{{1, 2, 3}, {40, 0, 17}};
  PlanInput input;
};

TEST_F(Validation, IndptrStartsAtZeroAndNeverDecreases) {
  batch.qo_indptr = {1, 2, 3, 6};
  expect_refused({"qo_indptr[0] is 1, expected 0"});
  batch.qo_indptr = {0, 3, 1, 6};
  expect_refused({"qo_indptr[2] is 1, expected at least qo_indptr[1] = 3"});
  batch.qo_indptr = {0, 1, 3, 6};
  batch.kv_indptr = {0, 3, 2, 5};
  expect_refused({"kv.indptr[2] is 2, expected at least kv.indptr[1] = 3"});
}

TEST_F(Validation, LengthsFitTheirPages) {
  batch.kv_lens[2] = 33;
  expect_refused({"kv.kv_lens[2] is 33, expected at most 32: 2 blocks of 16 tokens"});
  batch.kv_lens[2] = -1;
  expect_refused({"kv_lens[2] is -1, expected 0 to"});
}

TEST_F(Validation, ATableHoldsAllOfARequest) {
  const std::vector<std::int32_t> stored = {39, 0, 17};
  input = batch.input();
  input.kv.kv_lens = stored;
  expect_refused({"kv.kv_lens[0] is 39, expected kv_lens[0] = 40"});
}

TEST_F(Validation, V5CountsThatDisagreeAreALengthMismatch) {
  batch.kv_indptr = {0};
  expect_refused({"length mismatch", "qo_indptr has 4 entries and kv.indptr has 1"});
  batch.kv_lens.pop_back();
  expect_refused({"length mismatch", "qo_indptr has 4 entries and kv_lens has 2, expected 3"});
  batch.qo_indptr.clear();
  expect_refused({"qo_indptr is empty"});
}

TEST_F(Validation, V2WideIndicesAreReadAsTheyAreOrRefused) {
  std::vector<std::int64_t> wide(batch.kv_indptr.begin(), batch.kv_indptr.end());
  input = batch.input();
  input.kv.indptr = wide;
  Plan plan;
  Planner planner(causal_spec(), Heads{32, 8}, known_device("h200"));
  planner.plan(input, plan);
  EXPECT_EQ(plan.stats().kv_tokens_read, 40 + 17);
  wide.back() += std::int64_t{1} << 32;  // the low half is still right
  expect_refused({"kv.indptr[3] is 4294967301", "32-bit range"});
}

TEST_F(Validation, BlockSizesAndShortTables) {
  input = batch.input();
  input.kv.block_cols = 0;
  expect_refused({"kv.block_cols is 0, expected 1 .."});
  const std::vector<std::int32_t> indices = {4, 5, 6};
  input = batch.input();
  input.kv.indices = indices;
  expect_refused({"kv.indices has 3 entries, expected at least kv.indptr[-1] = 5"});
}

TEST_F(Validation, BlockRowsStayInTheirRequest) {
  const std::vector<std::int32_t> rows = {0, 2, 3, 6}, requests = {0, 1, 2};
  input = batch.input();
  input.kv.row_indptr = rows;
  input.kv.row_requests = requests;
  expect_refused({"block row 0 holds query tokens 0 .. 2", "request 0: 0 .. 1"});
}

TEST_F(Validation, PositionsAscendAndEndInTheRequest) {
  const std::vector<std::int32_t> twice = {0, 1, 1, 0, 1}, beyond = {0, 1, 3, 0, 1};
  input = batch.input();
  input.kv.positions = twice;
  expect_refused({"kv.positions[2] is 1, expected more than kv.positions[1] = 1"});
  input.kv.positions = beyond;
  expect_refused({"block row 0 ends with key 55", "below 40"});
}

TEST_F(Validation, P7EachLimitHasItsOwnError) {
  const ErrorKind kind = ErrorKind::out_of_capacity;
  expect_refused({"3 requests, limits.max_batch is 2"}, {.max_batch = 2}, kind);
  expect_refused({"6 query tokens, limits.max_qo_tokens is 5"}, {.max_qo_tokens = 5}, kind);
  expect_refused({"5 pages, limits.max_pages is 4"}, {.max_pages = 4}, kind);
  expect_refused({"40 KV tokens, limits.max_kv_tokens is 39"}, {.max_kv_tokens = 39}, kind);
}

TEST_F(Validation, ABatchThatNoPlanHoldsIsRefusedBeforeMemoryIsAsked) {
  batch.qo_indptr = {0, 1, 3, 2147483647};
  expect_refused({"request 2 has 2147483644 query tokens", "group of 4"});
}

TEST_F(Validation, BoundsThatWouldOverflow) {
  AttentionSpec spec;
  spec.variant.bounds = {-1, std::numeric_limits<std::int64_t>::max()};
  expect_error(ErrorKind::invalid_argument, {"variant.bounds.right is 9223372036854775807", "2^62"},
               [&] {
                 trencadis::Planner(spec, Heads{8, 8}, known_device("h200"));
               });
  spec.variant.bounds = {MaskBounds::kMost, MaskBounds::kMost};
  trencadis::Planner(spec, Heads{8, 8}, known_device("h200"));
}

TEST_F(Validation, HeadsAndDevices) {
  const auto make = [&](Heads heads, DeviceLimits device) {
    make_plan(causal_spec(), heads, device, batch.input());
  };
  expect_error(ErrorKind::invalid_argument,
               {"heads.qo is 12, expected a positive multiple of heads.kv = 8"}, [&] {
                 make(Heads{12, 8}, known_device("h200"));
               });
  expect_error(ErrorKind::invalid_argument, {"device.num_ctas is 0"}, [&] {
    make(Heads{32, 8}, device_of(0));
  });
}

}  // namespace
}  // namespace trencadis::testing
