#include "support/problem.h"

#include <algorithm>
#include <numeric>

#include "support/backend_under_test.h"

namespace trencadis::testing {
namespace {

constexpr std::int64_t kSparePages = 3;  // owned by nobody

std::vector<std::int64_t> widen(const std::vector<std::int32_t>& values) {
  return {values.begin(), values.end()};
}

std::vector<std::int32_t> shrink(const std::vector<std::int64_t>& values) {
  std::vector<std::int32_t> narrow;
  for (const std::int64_t value : values) narrow.push_back(static_cast<std::int32_t>(value));
  return narrow;
}

/// Blocks of the pool that the matrix can name.
std::int64_t blocks_of(const BlockSparse& matrix) {
  std::int64_t blocks = matrix.indices.empty() ? matrix.indptr.back() : 0;
  for (const std::int32_t block : matrix.indices)
    blocks = std::max<std::int64_t>(blocks, block + 1);
  return blocks;
}

/// Calls visit(row, token of the row, block, offset in the block) for each token that a block row
/// owns.
template <class Visit>
void for_each_owned_token(const BlockSparse& matrix, const Visit& visit) {
  for (std::size_t r = 0; r < matrix.kv_lens.size(); ++r) {
    for (std::int64_t t = 0; t < matrix.kv_lens[r]; ++t) {
      const std::int64_t entry = matrix.indptr[r] + t / matrix.block_cols;
      const std::int64_t block =
          matrix.indices.empty() ? entry : matrix.indices[static_cast<std::size_t>(entry)];
      visit(static_cast<std::int64_t>(r), t, block, t % matrix.block_cols);
    }
  }
}

void set_tokens(const TensorView& pool, const Problem& problem, const TokenValue& value) {
  const TensorView blocks =
      reference::as_blocks(pool, problem.config.layout, problem.matrix.block_cols);
  for_each_owned_token(
      problem.matrix, [&](std::int64_t b, std::int64_t j, std::int64_t block, std::int64_t offset) {
        fill(blocks.select(0, block).select(0, offset), value(b, j));
      });
}

}  // namespace

void set_queries(const Problem& problem, double value) {
  fill(problem.q, value);
}

void set_keys(const Problem& problem, const TokenValue& value) {
  set_tokens(problem.k, problem, value);
}

void set_values(const Problem& problem, const TokenValue& value) {
  set_tokens(problem.v, problem, value);
}

void poison_keys(const Problem& problem, std::int64_t b, std::int64_t begin, std::int64_t end,
                 double value) {
  for (const TensorView& pool : {problem.k, problem.v}) {
    const TensorView blocks =
        reference::as_blocks(pool, problem.config.layout, problem.matrix.block_cols);
    for_each_owned_token(problem.matrix, [&](std::int64_t row, std::int64_t j, std::int64_t block,
                                             std::int64_t offset) {
      if (row == b && j >= begin && j < end) fill(blocks.select(0, block).select(0, offset), value);
    });
  }
}

Problem without_empty_requests(const Problem& problem) {
  Problem result;
  result.spec = problem.spec;
  result.config = problem.config;
  result.matrix = problem.matrix;
  result.matrix.indptr = {0};
  result.matrix.kv_lens.clear();
  result.qo_indptr = {0};
  std::vector<double> queries;
  for (std::size_t b = 0; b < problem.kv_lens.size(); ++b) {
    if (problem.kv_lens[b] == 0) continue;
    const std::int64_t begin = problem.qo_indptr[b], end = problem.qo_indptr[b + 1];
    result.qo_indptr.push_back(result.qo_indptr.back() + end - begin);
    result.kv_lens.push_back(problem.kv_lens[b]);
    result.matrix.indptr.push_back(problem.matrix.indptr[b + 1]);
    result.matrix.kv_lens.push_back(problem.matrix.kv_lens[b]);
    const std::vector<double> rows = to_doubles(problem.q.slice(0, begin, end));
    queries.insert(queries.end(), rows.begin(), rows.end());
  }
  result.qo_indptr32 = shrink(result.qo_indptr);
  result.kv_lens32 = shrink(result.kv_lens);
  result.q_storage =
      HostTensor(problem.spec.dtype_q, {result.nnz_q(), problem.q.size(1), problem.q.size(2)});
  result.q = result.q_storage.whole();
  fill(result.q, [&, next = queries.begin()]() mutable { return *next++; });
  result.k = problem.k;
  result.v = problem.v;
  result.sinks = problem.sinks;
  result.scalars = problem.scalars;
  return result;
}

PlanInput Problem::plan_input() const {
  PlanInput input;
  if (!wide_indices) {
    input.qo_indptr = qo_indptr32;
    input.kv_lens = kv_lens32;
    input.kv = matrix.view();
    return input;
  }
  input.qo_indptr = qo_indptr;
  input.kv_lens = kv_lens;
  input.kv.block_cols = matrix.block_cols;
  input.kv.row_indptr = wide.row_indptr;
  input.kv.row_requests = wide.row_requests;
  input.kv.indptr = wide.indptr;
  input.kv.indices = wide.indices;
  input.kv.positions = wide.positions;
  input.kv.kv_lens = wide.kv_lens;
  return input;
}

RunArgs Problem::run_args(std::vector<TensorView>& views) const {
  views.clear();
  for (const HostTensor& tensor : tensors) views.push_back(tensor.whole());
  RunArgs args;
  args.q = q;
  args.k = k;
  args.v = v;
  if (spec.variant.sinks) args.sinks = sinks.whole();
  args.tensors = views;
  args.scalars = scalars;
  return args;
}

ProblemBuilder& ProblemBuilder::heads(int qo, int kv) {
  config_.heads = {qo, kv};
  return *this;
}
ProblemBuilder& ProblemBuilder::dims(int qk, int vo) {
  spec_.head_dim_qk = qk;
  spec_.head_dim_vo = vo;
  return *this;
}
ProblemBuilder& ProblemBuilder::lengths(std::vector<Lengths> lengths) {
  lengths_ = std::move(lengths);
  return *this;
}
ProblemBuilder& ProblemBuilder::page_size(std::int64_t tokens) {
  config_.page_size = tokens;
  return *this;
}
ProblemBuilder& ProblemBuilder::dtype(DType all) {
  return dtypes(all, all, all);
}
ProblemBuilder& ProblemBuilder::dtypes(DType q, DType kv, DType o) {
  spec_.dtype_q = q;
  spec_.dtype_kv = kv;
  spec_.dtype_o = o;
  return *this;
}
ProblemBuilder& ProblemBuilder::variant(Variant variant) {
  spec_.variant = std::move(variant);
  return *this;
}
ProblemBuilder& ProblemBuilder::causal() {
  spec_.variant = Variant{};
  spec_.variant.bounds = {-1, 0};
  return *this;
}
ProblemBuilder& ProblemBuilder::layout(KvLayout layout) {
  config_.layout = layout;
  return *this;
}
ProblemBuilder& ProblemBuilder::pool(PoolStyle style) {
  style_ = style;
  return *this;
}
ProblemBuilder& ProblemBuilder::ragged() {
  ragged_ = true;
  return *this;
}
ProblemBuilder& ProblemBuilder::matrix(BlockSparse matrix) {
  matrix_ = std::move(matrix);
  return *this;
}
ProblemBuilder& ProblemBuilder::garbage(double value) {
  garbage_ = value;
  return *this;
}
ProblemBuilder& ProblemBuilder::wide_indices() {
  wide_ = true;
  return *this;
}
ProblemBuilder& ProblemBuilder::seed(std::uint64_t seed) {
  random_.seed(seed);
  return *this;
}
ProblemBuilder& ProblemBuilder::query_scale(double scale) {
  query_scale_ = scale;
  return *this;
}
ProblemBuilder& ProblemBuilder::sm_scale(double scale) {
  config_.sm_scale = scale;
  return *this;
}
ProblemBuilder& ProblemBuilder::lse_base(LseBase base) {
  spec_.lse_base = base;
  return *this;
}
ProblemBuilder& ProblemBuilder::plan(PlanOptions options) {
  config_.plan = options;
  return *this;
}
ProblemBuilder& ProblemBuilder::limits(Limits limits) {
  config_.limits = limits;
  return *this;
}
ProblemBuilder& ProblemBuilder::threads(int threads) {
  config_.num_threads = threads;
  return *this;
}
ProblemBuilder& ProblemBuilder::tensor(std::string name, HostTensor tensor) {
  given_.insert_or_assign(std::move(name), std::move(tensor));
  return *this;
}
ProblemBuilder& ProblemBuilder::hooks(reference::Hooks hooks) {
  hooks_ = std::move(hooks);
  return *this;
}

Problem ProblemBuilder::build() {
  Problem problem;
  problem.spec = spec_;
  problem.qo_indptr = {0};
  for (const Lengths& request : lengths_) {
    problem.qo_indptr.push_back(problem.qo_indptr.back() + request.q);
    problem.kv_lens.push_back(request.kv);
  }
  problem.qo_indptr32 = shrink(problem.qo_indptr);
  problem.kv_lens32 = shrink(problem.kv_lens);
  make_matrix(problem);
  problem.config = config_;
  problem.config.page_size = problem.matrix.block_cols;
  problem.config.backend = backend_under_test();
  make_queries(problem);
  make_pool(problem);
  make_variant_tensors(problem);
  problem.hooks = hooks_;
  return problem;
}

void ProblemBuilder::make_matrix(Problem& problem) {
  if (matrix_) {
    problem.matrix = *matrix_;
  } else if (ragged_) {
    std::vector<std::int64_t> kv_indptr{0};
    for (const std::int64_t len : problem.kv_lens) kv_indptr.push_back(kv_indptr.back() + len);
    problem.matrix = from_ragged(kv_indptr);
  } else {
    std::vector<std::int64_t> indptr{0};
    for (const std::int64_t len : problem.kv_lens) {
      indptr.push_back(indptr.back() + (len + config_.page_size - 1) / config_.page_size);
    }
    std::vector<std::int64_t> pages(static_cast<std::size_t>(indptr.back() + kSparePages));
    std::iota(pages.begin(), pages.end(), 0);
    std::shuffle(pages.begin(), pages.end(), random_);
    pages.resize(static_cast<std::size_t>(indptr.back()));
    problem.matrix = from_page_table(indptr, pages, problem.kv_lens, config_.page_size);
  }
  problem.wide_indices = wide_;
  const BlockSparse& matrix = problem.matrix;
  problem.wide = {widen(matrix.row_indptr), widen(matrix.row_requests), widen(matrix.indptr),
                  widen(matrix.indices),    widen(matrix.positions),    widen(matrix.kv_lens)};
}

void ProblemBuilder::make_queries(Problem& problem) {
  const auto [qo, kv] = config_.heads;
  // A slice of [T, H_q + 2 H_kv, D], as a fused projection leaves it.
  problem.q_storage = HostTensor(spec_.dtype_q, {problem.nnz_q(), qo + 2 * kv, spec_.head_dim_qk});
  problem.q = problem.q_storage.whole().slice(1, 0, qo);
  fill(problem.q, [&] { return query_scale_ * normal(); });
}

void ProblemBuilder::make_pool(Problem& problem) {
  const std::int64_t block = problem.matrix.block_cols, heads = config_.heads.kv;
  const std::int64_t d_qk = spec_.head_dim_qk, d_vo = spec_.vo();
  const bool nhd = config_.layout == KvLayout::nhd;
  const std::int64_t blocks = blocks_of(problem.matrix) + kSparePages;
  const auto pool_shape = [&](std::int64_t dim) -> std::vector<std::int64_t> {
    if (ragged_) {
      return nhd ? std::vector<std::int64_t>{blocks * block, 1, heads, dim}
                 : std::vector<std::int64_t>{1, heads, blocks * block, dim};
    }
    return nhd ? std::vector<std::int64_t>{blocks, 1, 1, block, heads, dim}
               : std::vector<std::int64_t>{blocks, 1, 1, heads, block, dim};
  };
  const int pair_dim = ragged_ ? (nhd ? 1 : 0) : 2;
  const auto take = [&](const HostTensor& storage, std::int64_t which, std::int64_t dim) {
    TensorView view = storage.whole().select(pair_dim, which);
    if (!ragged_) view = view.select(1, view.size(1) / 2);  // the layer in the middle
    return view.slice(view.rank() - 1, 0, dim);
  };
  if (style_ == PoolStyle::separate) {
    problem.k_storage = HostTensor(spec_.dtype_kv, pool_shape(d_qk), garbage_);
    problem.v_storage = HostTensor(spec_.dtype_kv, pool_shape(d_vo), garbage_);
    problem.k = take(problem.k_storage, 0, d_qk);
    problem.v = take(problem.v_storage, 0, d_vo);
  } else {
    std::vector<std::int64_t> shape = pool_shape(std::max(d_qk, d_vo));
    shape[static_cast<std::size_t>(pair_dim)] = 2;
    if (!ragged_ && style_ == PoolStyle::layered) shape[1] = 3;
    problem.k_storage = HostTensor(spec_.dtype_kv, shape, garbage_);
    problem.k = take(problem.k_storage, 0, d_qk);
    problem.v = take(problem.k_storage, 1, d_vo);
  }
  const TensorView k = reference::as_blocks(problem.k, config_.layout, block);
  const TensorView v = reference::as_blocks(problem.v, config_.layout, block);
  for_each_owned_token(problem.matrix, [&](auto, auto, std::int64_t id, std::int64_t offset) {
    fill(k.select(0, id).select(0, offset), [&] { return normal(); });
    fill(v.select(0, id).select(0, offset), [&] { return normal(); });
  });
}

void ProblemBuilder::make_variant_tensors(Problem& problem) {
  const Variant& variant = spec_.variant;
  for (const ExtraTensor& declared : variant.tensors) {
    const auto given = given_.find(declared.name);
    problem.tensors.push_back(
        given != given_.end() ? given->second : make_stock_tensor(declared, problem, random_));
  }
  if (!variant.sinks) return;
  const auto given = given_.find("sinks");
  problem.sinks =
      given != given_.end() ? given->second : HostTensor(DType::f32, {config_.heads.qo}, 0.0);
  if (given == given_.end()) fill(problem.sinks.whole(), [&] { return normal(); });
}

}  // namespace trencadis::testing
