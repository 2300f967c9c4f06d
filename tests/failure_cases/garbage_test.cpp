// G1-G2: what no request owns never reaches an output.
#include "failure_cases/case.h"

namespace trencadis::testing {
namespace {

using Build = std::function<Problem(double garbage)>;

void expect_garbage_changes_nothing(const Build& build) {
  const Output clean = run_engine(build(0.0));
  for (const double x : clean.out) ASSERT_TRUE(std::isfinite(x));
  EXPECT_TRUE(same_bits(run_engine(build(kNan)), clean)) << "a pool of NaN";
  EXPECT_TRUE(same_bits(run_engine(build(kInf)), clean)) << "a pool of infinities";
}

std::vector<Lengths> with_queries(std::initializer_list<std::int64_t> kv_lens, std::int64_t l_q) {
  std::vector<Lengths> lengths;
  for (const std::int64_t kv_len : kv_lens) lengths.push_back({std::min(l_q, kv_len), kv_len});
  return lengths;
}

TEST(FailureCases, G1GarbageBehindTheLastToken) {
  for (const std::int64_t page : {1, 16, 64, 128}) {
    for (const std::int64_t l_q : {1, 20}) {
      for (const KvLayout layout : {KvLayout::nhd, KvLayout::hnd}) {
        for (const auto& lengths : {with_queries({1, 15, 16, 17, 127, 128, 129}, l_q),
                                    with_queries({32, 64, 96, 48}, l_q)}) {
          SCOPED_TRACE(::testing::Message() << "page size " << page << ", l_q " << l_q);
          expect_garbage_changes_nothing([&](double garbage) {
            return ProblemBuilder()
                .heads(4, 2)
                .dims(64)
                .lengths(lengths)
                .page_size(page)
                .causal()
                .layout(layout)
                .garbage(garbage)
                .build();
          });
        }
      }
    }
  }
}

// Pages that slid out of the window of every row are freed while the table still names them.
TEST(FailureCases, G1GarbageLeftOfAWindow) {
  for (const std::int64_t l_q : {1, 9}) {
    expect_garbage_changes_nothing([l_q](double garbage) {
      Variant variant;
      variant.bounds = {20, 0};
      Problem problem = ProblemBuilder()
                            .heads(4, 2)
                            .dims(64)
                            .lengths(with_queries({15, 128, 129, 200}, l_q))
                            .variant(variant)
                            .build();
      for (std::int64_t b = 0; b < problem.batch(); ++b) {
        const auto i = static_cast<std::size_t>(b);
        const std::int64_t first_row = problem.kv_lens[i] - l_q;
        poison_keys(problem, b, 0, std::max<std::int64_t>(0, first_row - 20), garbage);
      }
      return problem;
    });
  }
}

TEST(FailureCases, G1GarbageUnderACustomMask) {
  for (const std::int64_t l_q : {1, 9}) {
    expect_garbage_changes_nothing([l_q](double garbage) {
      const std::int64_t l_kv = 150;
      HostTensor bits(DType::u8, {l_q, l_kv}, 1.0);
      const auto hide = [&](std::int64_t begin, std::int64_t end) {
        fill(bits.whole().slice(1, begin, end), 0.0);
      };
      hide(0, 7);
      hide(60, 100);
      const std::vector<TensorView> masks{bits.whole()};
      const PackedMask packed =
          pack_masks(masks, std::vector<std::int64_t>{0, l_q}, std::vector<std::int64_t>{l_kv});
      Problem problem = ProblemBuilder()
                            .heads(4, 2)
                            .dims(64)
                            .lengths({{l_q, l_kv}})
                            .variant(variants::softmax({.custom_mask = true}))
                            .tensor("packed_mask", HostTensor::from(DType::u8, packed.bits))
                            .build();
      poison_keys(problem, 0, 0, 7, garbage);
      poison_keys(problem, 0, 60, 100, garbage);
      return problem;
    });
  }
}

TEST(FailureCases, G2UnusedTableEntriesAreNotRead) {
  // Page 0 is nobody's and full of NaN, as are all that the requests do not own.
  const std::vector<std::int32_t> table{3, 0, -1, 0,  //
                                        0, 0, 0,  0,  //
                                        2, 5, 1,  -1};
  const std::vector<std::int32_t> kv_lens{10, 0, 48};
  const Problem problem = ProblemBuilder()
                              .heads(4, 2)
                              .dims(64)
                              .lengths({{1, 10}, {2, 0}, {3, 48}})
                              .matrix(from_padded_table(table, 4, kv_lens, 16))
                              .build();
  EXPECT_TRUE(close_to_reference(run_engine(problem), problem));
}

TEST(FailureCases, G2SparePagesOfACsrTableAreNotRead) {
  const std::vector<std::int32_t> qo_indptr{0, 1, 3}, kv_indptr{0, 3, 5}, kv_lens{10, 20};
  const std::vector<std::int32_t> indices{3, 0, -1, 2, 5};
  const Problem problem = ProblemBuilder()
                              .heads(4, 2)
                              .dims(64)
                              .lengths({{1, 10}, {2, 20}})
                              .matrix(from_page_table(kv_indptr, indices, kv_lens, 16))
                              .build();
  Attention attention = planned(problem);
  const Output compacted = run(attention, problem);
  attention.plan(qo_indptr, kv_indptr, indices, kv_lens);
  EXPECT_TRUE(same_bits(run(attention, problem), compacted));
  EXPECT_TRUE(close_to_reference(compacted, problem));
}

}  // namespace
}  // namespace trencadis::testing
