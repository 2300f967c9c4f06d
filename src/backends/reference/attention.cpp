#include "backends/reference/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/float16.h"

namespace trencadis::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The keys and values of one block row and KV head, in storage order, transformed.
struct Keys {
  std::vector<std::int64_t> positions;  // [n]
  std::vector<double> k;                // [n, D_qk]
  std::vector<double> v;                // [n, D_vo]
};

struct BlockRow {
  std::size_t index;
  std::int64_t request;
  std::int64_t token_begin, token_end;  // of the ragged q
};

void copy_row(const TensorView& tensor, std::int64_t start, std::int64_t stride,
              std::span<double> row) {
  for (std::size_t d = 0; d < row.size(); ++d) {
    row[d] = load(tensor, start + static_cast<std::int64_t>(d) * stride);
  }
}

BlockRow block_row(const Problem& problem, std::size_t r) {
  const auto& kv = problem.kv;
  const std::int64_t request =
      kv.row_requests.empty() ? static_cast<std::int64_t>(r) : kv.row_requests[r];
  const IndexSpan& tokens = kv.row_indptr.empty() ? problem.qo_indptr : kv.row_indptr;
  return {r, request, tokens[r], tokens[r + 1]};
}

At coordinates(const Problem& problem, std::int64_t request) {
  const auto b = static_cast<std::size_t>(request);
  At at;
  at.request = request;
  at.l_q = problem.qo_indptr[b + 1] - problem.qo_indptr[b];
  at.l_kv = problem.kv_lens[b];
  return at;
}

Keys gather(const Problem& problem, const BlockRow& row, std::int64_t kv_head) {
  const auto& kv = problem.kv;
  const auto d_qk = static_cast<std::size_t>(problem.k.size(3));
  const auto d_vo = static_cast<std::size_t>(problem.v.size(3));
  const auto n = static_cast<std::size_t>(kv.kv_lens[row.index]);
  Keys keys{std::vector<std::int64_t>(n), std::vector<double>(n * d_qk),
            std::vector<double>(n * d_vo)};
  At at = coordinates(problem, row.request);
  at.kv_head = kv_head;
  for (std::size_t t = 0; t < n; ++t) {
    const std::int64_t column = static_cast<std::int64_t>(t) / kv.block_cols;
    const std::int64_t offset = static_cast<std::int64_t>(t) % kv.block_cols;
    const std::int64_t entry = kv.indptr[row.index] + column;
    const auto e = static_cast<std::size_t>(entry);
    const std::int64_t block = kv.indices.empty() ? entry : kv.indices[e];
    at.key = (kv.positions.empty() ? column : kv.positions[e]) * kv.block_cols + offset;
    keys.positions[t] = at.key;

    const std::span<double> k(keys.k.data() + t * d_qk, d_qk);
    const std::span<double> v(keys.v.data() + t * d_vo, d_vo);
    const auto start = [&](const TensorView& pool) {
      return block * pool.stride(0) + offset * pool.stride(1) + kv_head * pool.stride(2);
    };
    copy_row(problem.k, start(problem.k), problem.k.stride(3), k);
    copy_row(problem.v, start(problem.v), problem.v.stride(3), v);
    if (problem.hooks.key) problem.hooks.key(k, at);
    if (problem.hooks.value) problem.hooks.value(v, at);
  }
  return keys;
}

bool is_visible(const Problem& problem, const At& at) {
  const std::int64_t p = at.position();
  const auto [left, right] = problem.bounds;
  if (left >= 0 && at.key < p - left) return false;
  if (right >= 0 && at.key > p + right) return false;
  return !problem.hooks.mask || problem.hooks.mask(at);
}

struct Weighted {
  std::size_t key;  // index into Keys
  double value;     // logit, later weight
};

/// Logits of the visible keys.
std::vector<Weighted> logits(const Problem& problem, std::span<const double> q, const Keys& keys,
                             At at) {
  const double scale =
      problem.sm_scale != 0.0 ? problem.sm_scale : 1.0 / std::sqrt(static_cast<double>(q.size()));
  std::vector<Weighted> result;
  for (std::size_t t = 0; t < keys.positions.size(); ++t) {
    at.key = keys.positions[t];
    if (!is_visible(problem, at)) continue;
    double dot = 0.0;
    for (std::size_t d = 0; d < q.size(); ++d) dot += q[d] * keys.k[t * q.size() + d];
    const double logit = dot * scale;
    result.push_back({t, problem.hooks.logit ? problem.hooks.logit(logit, at) : logit});
  }
  return result;
}

/// Turns logits into weights that sum to 1 (less what the sink takes); returns the natural-log LSE
/// of the keys alone. No visible key: weights of 0 and -inf.
double softmax(std::span<Weighted> weights, std::optional<double> sink) {
  double largest = -kInfinity;
  for (const Weighted& w : weights) largest = std::max(largest, w.value);
  if (largest == -kInfinity) {
    // Every logit is -inf, or a NaN that must be seen.
    for (Weighted& w : weights) w.value = std::isnan(w.value) ? w.value : 0.0;
    return -kInfinity;
  }
  double keys_sum = 0.0;
  for (const Weighted& w : weights) keys_sum += std::exp(w.value - largest);
  const double lse = largest + std::log(keys_sum);

  const double top = sink ? std::max(largest, *sink) : largest;
  double denominator = sink ? std::exp(*sink - top) : 0.0;
  for (const Weighted& w : weights) denominator += std::exp(w.value - top);
  for (Weighted& w : weights) w.value = std::exp(w.value - top) / denominator;
  return lse;
}

/// One query row and head.
void attend(const Problem& problem, const Keys& keys, const At& at, Result& result) {
  std::vector<double> q(static_cast<std::size_t>(problem.q.size(2)));
  copy_row(problem.q, at.token * problem.q.stride(0) + at.qo_head * problem.q.stride(1),
           problem.q.stride(2), q);
  if (problem.hooks.query) problem.hooks.query(q, at);

  std::vector<Weighted> weights = logits(problem, q, keys, at);
  const auto index = static_cast<std::size_t>(at.token * problem.heads.qo + at.qo_head);
  if (problem.use_softmax) {
    std::optional<double> sink;
    if (problem.sinks) sink = (*problem.sinks)[static_cast<std::size_t>(at.qo_head)];
    const double lse = softmax(weights, sink);
    result.lse[index] = problem.lse_base == LseBase::two ? lse / std::log(2.0) : lse;
  }

  const auto d_vo = static_cast<std::size_t>(problem.v.size(3));
  const std::span<double> out(result.out.data() + index * d_vo, d_vo);
  for (const Weighted& w : weights) {
    for (std::size_t d = 0; d < d_vo; ++d) out[d] += w.value * keys.v[w.key * d_vo + d];
  }
  if (problem.hooks.output) problem.hooks.output(out, at);
}

}  // namespace

double load(const TensorView& tensor, std::int64_t i) {
  switch (tensor.dtype()) {
    case DType::f64:
      return tensor.data_as<const double>()[i];
    case DType::f32:
      return tensor.data_as<const float>()[i];
    case DType::f16:
      return base::f16_to_float(tensor.data_as<const std::uint16_t>()[i]);
    case DType::bf16:
      return base::bf16_to_float(tensor.data_as<const std::uint16_t>()[i]);
    default:
      base::fail(ErrorKind::type_mismatch, "tensor is {}, expected a floating-point dtype", tensor);
  }
}

TensorView as_blocks(const TensorView& pool, KvLayout layout, std::int64_t block_cols) {
  base::check(pool.rank() == 3 || pool.rank() == 4, "pool is {}, expected rank 3 or 4", pool);
  const bool paged = pool.rank() == 4;
  const int first = paged ? 1 : 0;
  const int token = layout == KvLayout::nhd ? first : first + 1;
  const int head = layout == KvLayout::nhd ? first + 1 : first;
  const int dim = pool.rank() - 1;
  const std::int64_t blocks =
      paged ? pool.size(0) : (pool.size(token) + block_cols - 1) / block_cols;
  const std::int64_t block_stride = paged ? pool.stride(0) : pool.stride(token) * block_cols;
  const std::int64_t shape[] = {blocks, block_cols, pool.size(head), pool.size(dim)};
  const std::int64_t strides[] = {block_stride, pool.stride(token), pool.stride(head),
                                  pool.stride(dim)};
  return TensorView(pool.data(), pool.dtype(), shape, strides, pool.device());
}

Result attention(const Problem& problem) {
  const std::int64_t group = problem.heads.group();
  const auto rows = static_cast<std::size_t>(problem.q.size(0) * problem.heads.qo);
  Result result;
  // Rows that no block row covers see nothing.
  result.out.assign(rows * static_cast<std::size_t>(problem.v.size(3)), 0.0);
  if (problem.use_softmax) result.lse.assign(rows, -kInfinity);

  for (std::size_t r = 0; r < problem.kv.kv_lens.size(); ++r) {
    const BlockRow row = block_row(problem, r);
    if (row.token_begin == row.token_end) continue;
    const std::int64_t first_token = problem.qo_indptr[static_cast<std::size_t>(row.request)];
    At at = coordinates(problem, row.request);
    for (at.kv_head = 0; at.kv_head < problem.heads.kv; ++at.kv_head) {
      const Keys keys = gather(problem, row, at.kv_head);
      for (at.token = row.token_begin; at.token < row.token_end; ++at.token) {
        at.row = at.token - first_token;
        for (std::int64_t h = 0; h < group; ++h) {
          at.qo_head = at.kv_head * group + h;
          attend(problem, keys, at, result);
        }
      }
    }
  }
  return result;
}

}  // namespace trencadis::reference
