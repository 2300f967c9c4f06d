// V1-V6: a wrong input is a typed error that names it; nothing runs, and the plan before it stays.
#include "failure_cases/case.h"

namespace trencadis::testing {
namespace {

using Indices = std::vector<std::int32_t>;

/// Two requests over 3 pages of 16, planned and run once.
class Validation {
 public:
  Validation()
      : problem_(
            ProblemBuilder()
                .heads(4, 2)
                .dims(64)
                .lengths({{1, 20}, {3, 7}})
                .matrix(from_page_table(Indices{0, 2, 3}, Indices{4, 1, 2}, Indices{20, 7}, 16))
                .build()),
        attention_(planned(problem_)),
        before_(run(attention_, problem_)) {}

  void expect_refused(std::initializer_list<std::string> texts, const Indices& qo_indptr,
                      const Indices& kv_indptr, const Indices& kv_indices, const Indices& kv_lens) {
    expect_error(ErrorKind::invalid_argument, texts,
                 [&] { attention_.plan(qo_indptr, kv_indptr, kv_indices, kv_lens); });
    EXPECT_TRUE(same_bits(run(attention_, problem_), before_)) << "the plan in force was lost";
  }

 private:
  Problem problem_;
  Attention attention_;
  Output before_;
};

TEST(FailureCases, V1MalformedTables) {
  Validation v;
  v.expect_refused({"qo_indptr[0] is 1"}, {1, 1, 4}, {0, 2, 3}, {4, 1, 2}, {20, 7});
  v.expect_refused({"qo_indptr[2] is 0"}, {0, 1, 0}, {0, 2, 3}, {4, 1, 2}, {20, 7});
  v.expect_refused({"indptr[0] is 1", "expected 0"}, {0, 1, 4}, {1, 2, 3}, {4, 1, 2}, {20, 7});
  v.expect_refused({"indptr[2] is 1"}, {0, 1, 4}, {0, 2, 1}, {4, 1, 2}, {20, 7});
  v.expect_refused({"kv_lens[0] is 33", "at most 32"}, {0, 1, 4}, {0, 2, 3}, {4, 1, 2}, {33, 7});
  v.expect_refused({"kv_lens[1] is -1"}, {0, 1, 4}, {0, 2, 3}, {4, 1, 2}, {20, -1});
  v.expect_refused({"indices has 2 entries", "3"}, {0, 1, 4}, {0, 2, 3}, {4, 1}, {20, 7});
  v.expect_refused({"kv_indices[1] is -2"}, {0, 1, 4}, {0, 2, 3}, {4, -2, 2}, {20, 7});
  v.expect_refused({"length mismatch", "kv_lens"}, {0, 1, 4}, {0, 2, 3}, {4, 1, 2}, {20});
}

TEST(FailureCases, V1LastPageLengths) {
  expect_error(ErrorKind::invalid_argument, {"last_page_lens[0] is 0", "1 .. 16"}, [] {
    from_last_page_lens(Indices{0, 2}, Indices{1, 0}, Indices{0}, 16);
  });
  expect_error(ErrorKind::invalid_argument, {"last_page_lens[0] is 17", "1 .. 16"}, [] {
    from_last_page_lens(Indices{0, 2}, Indices{1, 0}, Indices{17}, 16);
  });
}

TEST(FailureCases, V2WideIndicesAreReadAsWhatTheyAre) {
  const auto build = [] {
    return ProblemBuilder().heads(4, 2).dims(64).lengths({{1, 70}, {3, 9}, {2, 0}});
  };
  const Output narrow = run_engine(build().build());
  EXPECT_TRUE(same_bits(run_engine(build().wide_indices().build()), narrow));

  Attention attention = planned(build().build());
  const std::vector<std::int64_t> indptr{0, 1}, lens{5}, page{(std::int64_t{1} << 32) + 1};
  expect_error(ErrorKind::invalid_argument, {"indices[0] is 4294967297"},
               [&] { attention.plan(indptr, indptr, page, lens); });
}

TEST(FailureCases, V3MasksOfTheWrongShape) {
  HostTensor mask(DType::u8, {20, 15}, 1.0);
  const auto pack = [&](std::int64_t rows, std::int64_t cols) {
    const std::vector<TensorView> masks{mask.whole().slice(0, 0, rows).slice(1, 0, cols)};
    pack_masks(masks, Indices{0, 10}, Indices{20});
  };
  expect_error(ErrorKind::invalid_argument, {"[10, 15]", "[10, 20]"}, [&] { pack(10, 15); });
  expect_error(ErrorKind::invalid_argument, {"[20, 10]", "[10, 20]"}, [&] { pack(20, 10); });

  // A matrix made from a [20, 10] mask is refused by a plan of 10 rows and 20 keys.
  const std::vector<std::uint8_t> bytes(200, 1);
  const BlockSparse matrix = from_mask(bytes, 20, 10, 4, 5);
  const Problem right =
      ProblemBuilder().heads(4, 2).dims(64).lengths({{20, 10}}).matrix(matrix).build();
  Attention attention = planned(right);
  const Indices qo_indptr{0, 10}, kv_lens{20};
  PlanInput wrong = right.plan_input();
  wrong.qo_indptr = qo_indptr;
  wrong.kv_lens = kv_lens;
  expect_error(ErrorKind::invalid_argument, {"row_indptr[-1] is 20", "10"},
               [&] { attention.plan(wrong); });
}

TEST(FailureCases, V4OptionsThatTheKernelDoesNotHave) {
  const Problem problem = ProblemBuilder().heads(4, 2).dims(64).lengths({{2, 9}}).build();
  Attention attention = planned(problem);
  const HostTensor out(DType::bf16, {2, 4, 64}), sinks(DType::f32, {4}, 0.0);
  const auto refuse = [&](std::initializer_list<std::string> texts,
                          const std::function<void(RunArgs&)>& change) {
    std::vector<TensorView> views;
    RunArgs args = problem.run_args(views);
    args.out = out.whole();
    change(args);
    expect_error(ErrorKind::invalid_argument, texts, [&] { attention.run(args); });
    for (const double x : to_doubles(out.whole())) ASSERT_TRUE(std::isnan(x)) << "was written";
  };
  const double soft_cap[] = {30.0};
  const TensorView mask[] = {sinks.whole()};
  refuse({"scalars has 1 entries", "Chain<>"}, [&](RunArgs& args) { args.scalars = soft_cap; });
  refuse({"tensors has 1 entries", "Chain<>"}, [&](RunArgs& args) { args.tensors = mask; });
  refuse({"sinks is float32[4]", "no sinks"}, [&](RunArgs& args) { args.sinks = sinks.whole(); });
}

TEST(FailureCases, V5TablesOfUnlikeBatches) {
  Validation v;
  v.expect_refused({"length mismatch", "5 entries", "1"}, {0, 1, 2, 3, 4}, {0}, {}, {1, 1, 1, 1});
}

TEST(FailureCases, V6QueryRowsMustBeThoseOfThePlan) {
  const Problem problem = ProblemBuilder().heads(4, 2).dims(64).lengths({{2, 9}, {3, 4}}).build();
  Attention attention = planned(problem);
  const HostTensor out(DType::bf16, {5, 4, 64});
  std::vector<TensorView> views;
  RunArgs args = problem.run_args(views);
  args.out = out.whole();
  args.q = problem.q.slice(0, 0, 4);
  expect_error(ErrorKind::invalid_argument, {"q is", "qo_indptr[-1] = 5"},
               [&] { attention.run(args); });
  args.q = problem.q;
  args.out = out.whole().slice(0, 0, 4);
  expect_error(ErrorKind::invalid_argument, {"out is", "qo_indptr[-1] = 5"},
               [&] { attention.run(args); });
  for (const double x : to_doubles(out.whole())) ASSERT_TRUE(std::isnan(x)) << "was written";
}

}  // namespace
}  // namespace trencadis::testing
