// Random attention problems over a hostile pool: everything that no request owns is NaN, page ids
// are shuffled, K and V lie interleaved, q is a slice of a fused QKV, output rows are padded.
//
//   const Problem problem = ProblemBuilder().heads(32, 8).dims(128).lengths({{1, 100}, {7, 33}})
//                               .page_size(16).dtype(DType::bf16).variant(v).seed(1).build();
//   EXPECT_TRUE(close_to_reference(run_engine(problem), problem));   // compare.h
#pragma once

#include <trencadis/attention.h>
#include <trencadis/block_sparse.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "backends/reference/attention.h"
#include "support/host_tensor.h"

namespace trencadis::testing {

/// Tokens of one request.
struct Lengths {
  std::int64_t q = 0;
  std::int64_t kv = 0;
};

enum class PoolStyle {
  separate,     // k and v are tensors of their own
  interleaved,  // [pages, 2, P, H_kv, D] or its HND and ragged likes
  layered,      // layer 1 of [pages, 3, 2, P, H_kv, D]; ragged: as interleaved
};

/// One run, with everything that it reads. Movable: views stay valid; a copy's would not.
struct Problem {
  Problem() = default;
  Problem(Problem&&) = default;
  Problem& operator=(Problem&&) = default;

  AttentionSpec spec;
  AttentionConfig config;
  std::vector<std::int64_t> qo_indptr;  // [B + 1]
  std::vector<std::int64_t> kv_lens;    // [B]
  BlockSparse matrix;
  bool wide_indices = false;  // hand int64 to the engine, else int32
  TensorView q, k, v;
  HostTensor sinks;                       // float32 [H_q] where the variant has sinks
  std::vector<HostTensor> tensors;        // of the variant, in declared order
  std::vector<double> scalars;            // empty: the spec's
  std::optional<reference::Hooks> hooks;  // the oracle of a custom variant

  /// What plan() is given; borrows from this problem.
  PlanInput plan_input() const;
  /// What run() is given, less out and lse; `views` keeps the extra tensors' views.
  RunArgs run_args(std::vector<TensorView>& views) const;
  std::int64_t batch() const { return static_cast<std::int64_t>(kv_lens.size()); }
  std::int64_t nnz_q() const { return qo_indptr.back(); }

  std::vector<std::int32_t> qo_indptr32, kv_lens32;  // the same numbers for the narrow form
  struct WideTable {
    std::vector<std::int64_t> row_indptr, row_requests, indptr, indices, positions, kv_lens;
  } wide;
  HostTensor q_storage, k_storage, v_storage;
};

class ProblemBuilder {
 public:
  ProblemBuilder& heads(int qo, int kv);
  ProblemBuilder& dims(int qk, int vo = 0);
  ProblemBuilder& lengths(std::vector<Lengths> lengths);
  ProblemBuilder& page_size(std::int64_t tokens);
  ProblemBuilder& dtype(DType all);
  ProblemBuilder& dtypes(DType q, DType kv, DType o);
  ProblemBuilder& variant(Variant variant);
  ProblemBuilder& causal();  // variants::softmax with causal alone
  ProblemBuilder& layout(KvLayout layout);
  ProblemBuilder& pool(PoolStyle style);
  /// Contiguous keys and values [nnz_kv, H_kv, D] instead of pages.
  ProblemBuilder& ragged();
  /// This matrix instead of shuffled pages; its block ids name blocks of the pool.
  ProblemBuilder& matrix(BlockSparse matrix);
  /// What unowned bytes of the pool hold; NaN unless told.
  ProblemBuilder& garbage(double value);
  ProblemBuilder& wide_indices();
  ProblemBuilder& seed(std::uint64_t seed);
  /// Standard deviation of q's elements (k and v have 1): large ones give peaked softmaxes.
  ProblemBuilder& query_scale(double scale);
  ProblemBuilder& sm_scale(double scale);
  ProblemBuilder& lse_base(LseBase base);
  ProblemBuilder& plan(PlanOptions options);
  ProblemBuilder& limits(Limits limits);
  ProblemBuilder& threads(int threads);
  /// An extra tensor by name, instead of the random one that stock names get.
  ProblemBuilder& tensor(std::string name, HostTensor tensor);
  ProblemBuilder& hooks(reference::Hooks hooks);

  Problem build();

 private:
  void make_matrix(Problem& problem);
  void make_queries(Problem& problem);
  void make_pool(Problem& problem);
  void make_variant_tensors(Problem& problem);
  double normal() { return std::normal_distribution<double>()(random_); }

  AttentionSpec spec_;
  AttentionConfig config_;
  std::vector<Lengths> lengths_;
  PoolStyle style_ = PoolStyle::interleaved;
  bool ragged_ = false;
  bool wide_ = false;
  double garbage_ = kNan;
  double query_scale_ = 1.0;
  std::optional<BlockSparse> matrix_;
  std::map<std::string, HostTensor> given_;
  std::optional<reference::Hooks> hooks_;
  std::mt19937_64 random_{1};
};

/// The problem less the requests without keys: the same tokens through the same pages, of a page
/// table. Its pool is the problem's own, which it must not outlive.
Problem without_empty_requests(const Problem& problem);

/// Every lane of a row of q, k or v becomes value(...). `b` is a request, `j` a token of it; the
/// problem's matrix is a page table or ragged.
void set_queries(const Problem& problem, double value);
using TokenValue = std::function<double(std::int64_t b, std::int64_t j)>;
void set_keys(const Problem& problem, const TokenValue& value);
void set_values(const Problem& problem, const TokenValue& value);

/// Keys and values of tokens [begin, end) of request b become `value`: memory that was freed.
void poison_keys(const Problem& problem, std::int64_t b, std::int64_t begin, std::int64_t end,
                 double value);

/// A random extra tensor of a stock variant, by name. Throws std::invalid_argument for a name that
/// stock variants do not use: give that one to the builder.
HostTensor make_stock_tensor(const ExtraTensor& declared, const Problem& problem,
                             std::mt19937_64& random);

}  // namespace trencadis::testing
