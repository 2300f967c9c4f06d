// A1-A3: far pages, slices of larger tensors, any page size.
#include <sys/mman.h>

#include "failure_cases/case.h"

namespace trencadis::testing {
namespace {

/// Address space without memory behind it until a page is touched.
class SparseMemory {
 public:
  explicit SparseMemory(std::size_t bytes) : bytes_(bytes) {
    data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;
  ~SparseMemory() {
    if (valid()) munmap(data_, bytes_);
  }
  bool valid() const { return data_ != MAP_FAILED; }
  void* data() const { return data_; }

 private:
  std::size_t bytes_;
  void* data_;
};

// 32,768 elements a page: page 65,536 begins at element 2^31, byte 2^32.
TEST(FailureCases, A1PagesBehindTheReachOf32Bits) {
  constexpr std::int64_t kPages = 65'537, kPage = 16, kHeads = 8, kDim = 128;
  const SparseMemory memory(kPages * 2 * kPage * kHeads * kDim * 2);
  if (!memory.valid()) GTEST_SKIP() << "no 4.3 GiB of address space";
  const TensorView pool(memory.data(), DType::bf16, {kPages, 2, kPage, kHeads, kDim});
  const std::vector<std::int32_t> kv_lens{16, 16}, pages{65'535, 65'536}, indptr{0, 1, 2};
  Problem problem = ProblemBuilder().heads(32, 8).dims(128).lengths({{1, 16}, {1, 16}}).build();
  problem.matrix = from_page_table(indptr, pages, kv_lens, kPage);
  problem.k = pool.select(1, 0);
  problem.v = pool.select(1, 1);
  set_keys(problem, [](auto, auto) { return 0.0; });
  set_values(problem, [](std::int64_t b, auto) { return b == 0 ? 0.5 : -3.0; });
  const Output output = run_engine(problem);
  for (std::size_t i = 0; i < output.out.size(); ++i) {
    ASSERT_EQ(output.out[i], i < 32 * 128 ? 0.5 : -3.0) << i;
  }
  for (const double lse : output.lse) EXPECT_NEAR(lse, std::log(16.0), 1e-6);
}

// q is a slice of a fused QKV, the pool a layer of [pages, layers, 2, P, H_kv, D], the output
// padded.
TEST(FailureCases, A2SlicesOfLargerTensors) {
  for (const KvLayout layout : {KvLayout::nhd, KvLayout::hnd}) {
    for (const auto& lengths : {std::vector<Lengths>{{1, 33}, {1, 100}}, {{20, 50}, {3, 3}}}) {
      const Problem problem = ProblemBuilder()
                                  .heads(8, 2)
                                  .dims(64)
                                  .lengths(lengths)
                                  .causal()
                                  .layout(layout)
                                  .pool(PoolStyle::layered)
                                  .build();
      Attention attention = planned(problem);
      const Output first = run(attention, problem);
      EXPECT_TRUE(close_to_reference(first, problem));
      EXPECT_TRUE(same_bits(run(attention, problem), first)) << "a second call of the same plan";
    }
  }
}

TEST(FailureCases, A2KeysAndValuesWithUnlikeStridesAndDims) {
  for (const bool ragged : {false, true}) {
    ProblemBuilder builder;
    builder.heads(6, 3).dims(96, 64).lengths({{1, 33}, {18, 50}}).pool(PoolStyle::separate);
    if (ragged) builder.ragged();
    const Problem problem = builder.build();
    EXPECT_TRUE(close_to_reference(run_engine(problem), problem)) << "ragged: " << ragged;
  }
}

TEST(FailureCases, A3AnyPageSize) {
  for (const std::int64_t page :
       {1, 2, 3, 5, 8, 16, 24, 32, 48, 64, 96, 128, 160, 256, 512, 1024}) {
    for (const KvLayout layout : {KvLayout::nhd, KvLayout::hnd}) {
      const Problem problem = ProblemBuilder()
                                  .heads(4, 2)
                                  .dims(64)
                                  .lengths({{1, 300}, {17, 65}, {1, 1}})
                                  .page_size(page)
                                  .causal()
                                  .layout(layout)
                                  .seed(static_cast<std::uint64_t>(page))
                                  .build();
      EXPECT_TRUE(close_to_reference(run_engine(problem), problem)) << "page size " << page;
    }
  }
}

}  // namespace
}  // namespace trencadis::testing
