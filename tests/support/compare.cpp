#include "support/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/float16.h"
#include "support/backend_under_test.h"

namespace trencadis::testing {
namespace {

constexpr double kEpsilon = 0x1p-24;  // half an ulp of float32 at 1
constexpr double kMultiple = 3.0;

double round_to(DType dtype, double value) {
  const auto narrow = static_cast<float>(value);
  switch (dtype) {
    case DType::f16:
      return base::f16_to_float(base::float_to_f16(narrow));
    case DType::bf16:
      return base::bf16_to_float(base::float_to_bf16(narrow));
    default:
      return narrow;
  }
}

double half_ulp(DType dtype) {
  return dtype == DType::bf16 ? 0x1p-9 : dtype == DType::f16 ? 0x1p-12 : 0x1p-25;
}

/// One query row and head of the low-precision arithmetic, and the magnitudes that scale its error.
struct LowPrecisionRow {
  std::vector<double> out;
  double logit_magnitude = 0.0;  // largest sum of |q k| * scale of a visible key
  double value_magnitude = 0.0;  // largest sum of weight * |v|
  double logit_rounding = 0.0;   // what rounded rows change of a visible key's logit, at most
};

/// Keys and values that a block row owns, of one KV head, as the hooks leave them.
struct Keys {
  std::vector<std::int64_t> positions;    // [n]
  std::vector<std::vector<double>> k, v;  // [n][D]
  std::vector<std::vector<double>> rounded_k;
};

/// Query tokens that read one block row, of one KV head.
struct RowGroup {
  std::size_t block_row;
  std::int64_t token_begin, token_end;
  reference::At at;  // request, lengths and KV head
};

class LowPrecision {
 public:
  LowPrecision(const Problem& problem, HookedRows rows)
      : problem_(problem),
        reference_(reference_problem(problem)),
        rounds_(rows == HookedRows::rounded) {}

  Keys gather(const RowGroup& group) const {
    const BlockSparse& matrix = problem_.matrix;
    const std::int64_t width = matrix.block_cols;
    Keys keys;
    reference::At at = group.at;
    for (std::int64_t t = 0; t < matrix.kv_lens[group.block_row]; ++t) {
      const auto entry = static_cast<std::size_t>(matrix.indptr[group.block_row] + t / width);
      const std::int64_t block =
          matrix.indices.empty() ? static_cast<std::int64_t>(entry) : matrix.indices[entry];
      at.key = (matrix.positions.empty() ? t / width : matrix.positions[entry]) * width + t % width;
      keys.positions.push_back(at.key);
      const auto load = [&](const TensorView& pool) {
        return to_doubles(pool.select(0, block).select(0, t % width).select(0, at.kv_head));
      };
      keys.k.push_back(load(reference_.k));
      keys.v.push_back(load(reference_.v));
      if (reference_.hooks.key) reference_.hooks.key(keys.k.back(), at);
      if (reference_.hooks.value) reference_.hooks.value(keys.v.back(), at);
      keys.rounded_k.push_back(rounded(keys.k.back(), problem_.spec.dtype_kv));
      keys.v.back() = rounded(keys.v.back(), problem_.spec.dtype_kv);
    }
    return keys;
  }

  LowPrecisionRow row(const Keys& keys, const reference::At& at) const {
    LowPrecisionRow result;
    result.out.assign(static_cast<std::size_t>(problem_.spec.vo()), 0.0);
    const std::vector<Logit> logits = visible_logits(keys, at, result);
    if (!logits.empty()) accumulate(keys, logits, at, result);
    if (reference_.hooks.output) reference_.hooks.output(result.out, at);
    for (double& x : result.out) x = round_to(problem_.spec.dtype_o, x);
    return result;
  }

 private:
  struct Logit {
    std::size_t key;
    float value;
  };

  std::vector<double> rounded(std::vector<double> row, DType dtype) const {
    if (rounds_)
      for (double& x : row) x = round_to(dtype, x);
    return row;
  }

  std::vector<Logit> visible_logits(const Keys& keys, reference::At at,
                                    LowPrecisionRow& result) const {
    std::vector<double> q = to_doubles(reference_.q.select(0, at.token).select(0, at.qo_head));
    if (reference_.hooks.query) reference_.hooks.query(q, at);
    const std::vector<double> rounded_q = rounded(q, problem_.spec.dtype_q);
    const auto scale = static_cast<float>(reference_.sm_scale != 0.0
                                              ? reference_.sm_scale
                                              : 1.0 / std::sqrt(static_cast<double>(q.size())));
    std::vector<Logit> logits;
    for (std::size_t t = 0; t < keys.positions.size(); ++t) {
      at.key = keys.positions[t];
      if (!visible(at)) continue;
      float dot = 0.0f;
      double magnitude = 0.0, rounding = 0.0;
      for (std::size_t d = 0; d < q.size(); ++d) {
        const double product = rounded_q[d] * keys.rounded_k[t][d];
        dot += static_cast<float>(rounded_q[d]) * static_cast<float>(keys.rounded_k[t][d]);
        magnitude += std::abs(product);
        rounding += product - q[d] * keys.k[t][d];
      }
      result.logit_rounding = std::max(result.logit_rounding, std::abs(rounding * scale));
      float logit = dot * scale;
      if (reference_.hooks.logit) logit = static_cast<float>(reference_.hooks.logit(logit, at));
      result.logit_magnitude =
          std::max({result.logit_magnitude, magnitude * std::abs(scale), std::abs(double{logit})});
      logits.push_back({t, logit});
    }
    return logits;
  }

  bool visible(const reference::At& at) const {
    const std::int64_t distance = at.key - at.position();
    const MaskBounds& bounds = reference_.bounds;
    return (bounds.left < 0 || -distance <= bounds.left) &&
           (bounds.right < 0 || distance <= bounds.right) &&
           (!reference_.hooks.mask || reference_.hooks.mask(at));
  }

  void accumulate(const Keys& keys, const std::vector<Logit>& logits, const reference::At& at,
                  LowPrecisionRow& result) const {
    float top = -INFINITY;
    for (const Logit& logit : logits) top = std::max(top, logit.value);
    const bool softmax = reference_.use_softmax;
    if (softmax && top == -INFINITY) return;
    float sum = softmax ? 0.0f : 1.0f;
    if (reference_.sinks) {
      const auto sink =
          static_cast<float>((*reference_.sinks)[static_cast<std::size_t>(at.qo_head)]);
      top = std::max(top, sink);
      sum = std::exp(sink - top);
    }
    std::vector<float> weights;
    for (const Logit& logit : logits) {
      weights.push_back(softmax ? std::exp(logit.value - top) : logit.value);
      if (softmax) sum += weights.back();
    }
    // As frameworks do it: the weights are normalised, then rounded.
    std::vector<float> out(result.out.size(), 0.0f);
    std::vector<double> magnitude(result.out.size(), 0.0);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const float weight = weights[i] / sum;
      const auto rounded = static_cast<float>(round_to(problem_.spec.dtype_kv, weight));
      const std::vector<double>& v = keys.v[logits[i].key];
      for (std::size_t d = 0; d < out.size(); ++d) {
        out[d] += rounded * static_cast<float>(v[d]);
        magnitude[d] += std::abs(weight * v[d]);
      }
    }
    for (std::size_t d = 0; d < out.size(); ++d) {
      result.out[d] = out[d];
      result.value_magnitude = std::max(result.value_magnitude, magnitude[d]);
    }
  }

  const Problem& problem_;
  reference::Problem reference_;
  bool rounds_;
};

std::vector<RowGroup> row_groups(const Problem& problem) {
  const BlockSparse& matrix = problem.matrix;
  const std::vector<std::int64_t>& tokens =
      matrix.row_indptr.empty() ? problem.qo_indptr : problem.wide.row_indptr;
  std::vector<RowGroup> groups;
  for (std::size_t r = 0; r < matrix.kv_lens.size(); ++r) {
    const auto b = static_cast<std::size_t>(
        matrix.row_requests.empty() ? static_cast<std::int64_t>(r) : matrix.row_requests[r]);
    RowGroup group{r, tokens[r], tokens[r + 1], {}};
    group.at.request = static_cast<std::int64_t>(b);
    group.at.l_q = problem.qo_indptr[b + 1] - problem.qo_indptr[b];
    group.at.l_kv = problem.kv_lens[b];
    for (int h = 0; h < problem.config.heads.kv; ++h) {
      group.at.kv_head = h;
      groups.push_back(group);
    }
  }
  return groups;
}

/// Tolerances of one row and head, from what plain low precision does to it.
void set_tolerance(const Problem& problem, const LowPrecisionRow& low, std::size_t index,
                   Expected& result) {
  const auto dim = static_cast<std::size_t>(problem.spec.vo());
  double error = 0.0, magnitude = 0.0;
  for (std::size_t d = 0; d < dim; ++d) {
    const double exact = result.exact.out[index * dim + d];
    error = std::max(error, std::abs(low.out[d] - exact));
    magnitude = std::max(magnitude, std::abs(exact));
  }
  const double logit_error = kEpsilon * (16.0 + 4.0 * low.logit_magnitude);
  // What rounding the weights costs at most, whatever they are relative to.
  const double weight_error = 2.0 * half_ulp(problem.spec.dtype_kv) * low.value_magnitude;
  const double tolerance = std::max(kMultiple * error, weight_error) +
                           logit_error * low.value_magnitude +
                           half_ulp(problem.spec.dtype_o) * magnitude;
  for (std::size_t d = 0; d < dim; ++d) result.tolerance.out[index * dim + d] = tolerance;
  if (!result.exact.lse.empty()) {
    result.tolerance.lse[index] =
        low.logit_rounding + 1.5 * logit_error + 2.0 * kEpsilon * std::abs(result.exact.lse[index]);
  }
}

/// Why `actual` is not `exact`, or "".
std::string difference(double actual, double exact, double tolerance) {
  const bool same_kind = std::isnan(exact)   ? std::isnan(actual)
                         : std::isinf(exact) ? actual == exact
                                             : std::abs(actual - exact) <= tolerance;
  if (same_kind) return "";
  return fmt::format("{} where {} is due (off by {:.3g}, allowed {:.3g})", actual, exact,
                     std::abs(actual - exact), tolerance);
}

::testing::AssertionResult compare(std::string_view name, const std::vector<double>& actual,
                                   const std::vector<double>& exact,
                                   const std::vector<double>& tolerance, std::size_t width,
                                   int heads) {
  if (actual.size() != exact.size()) {
    return ::testing::AssertionFailure()
           << name << " has " << actual.size() << " elements, expected " << exact.size();
  }
  std::size_t wrong = 0;
  std::string first;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const std::string text = difference(actual[i], exact[i], tolerance[i]);
    if (text.empty()) continue;
    if (wrong++ == 0) {
      const std::size_t row = i / width;
      first = fmt::format("{}[token {}, head {}, {}] is {}", name, row / heads, row % heads,
                          i % width, text);
    }
  }
  if (wrong == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << first << "; " << wrong << " of " << actual.size() << " elements are wrong";
}

}  // namespace

Expected expected(const Problem& problem, HookedRows rows) {
  Expected result{run_reference(problem), {}};
  result.tolerance.out.assign(result.exact.out.size(), 0.0);
  result.tolerance.lse.assign(result.exact.lse.size(), 0.0);
  const LowPrecision low_precision(problem, rows);
  const std::int64_t group_size = problem.config.heads.group();
  for (const RowGroup& group : row_groups(problem)) {
    if (group.token_begin == group.token_end) continue;
    const Keys keys = low_precision.gather(group);
    reference::At at = group.at;
    for (at.token = group.token_begin; at.token < group.token_end; ++at.token) {
      at.row = at.token - problem.qo_indptr[static_cast<std::size_t>(at.request)];
      for (std::int64_t h = 0; h < group_size; ++h) {
        at.qo_head = at.kv_head * group_size + h;
        const std::int64_t index = at.token * problem.config.heads.qo + at.qo_head;
        set_tolerance(problem, low_precision.row(keys, at), static_cast<std::size_t>(index),
                      result);
      }
    }
  }
  return result;
}

::testing::AssertionResult is_close(const Output& actual, const Expected& expected,
                                    const Problem& problem) {
  const int heads = problem.config.heads.qo;
  const ::testing::AssertionResult out =
      compare("out", actual.out, expected.exact.out, expected.tolerance.out,
              static_cast<std::size_t>(problem.spec.vo()), heads);
  if (!out) return out;
  return compare("lse", actual.lse, expected.exact.lse, expected.tolerance.lse, 1, heads);
}

::testing::AssertionResult close_to_reference(const Output& actual, const Problem& problem,
                                              HookedRows rows) {
  if (only_compiles()) return ::testing::AssertionSuccess();
  return is_close(actual, expected(problem, rows), problem);
}

Expected expected(const Problem& problem) {
  return expected(problem, hooked_rows_under_test());
}

::testing::AssertionResult close_to_reference(const Output& actual, const Problem& problem) {
  return close_to_reference(actual, problem, hooked_rows_under_test());
}

}  // namespace trencadis::testing
