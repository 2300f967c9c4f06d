#include <trencadis/trencadis.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

// One query over three keys in two pages, with q = 0: the output is the mean of the values.
int main() {
  using namespace trencadis;
  constexpr std::int64_t kDim = 64, kPage = 2;

  std::vector<float> q(kDim, 0.0f), out(kDim), lse(1);
  std::vector<float> k(2 * kPage * kDim, 1.0f), v(2 * kPage * kDim);
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i / kDim);

  AttentionSpec spec;
  spec.head_dim_qk = kDim;
  spec.dtype_q = spec.dtype_kv = spec.dtype_o = DType::f32;
  spec.variant = variants::softmax({.causal = true});
  AttentionConfig config;
  config.heads = {.qo = 1, .kv = 1};
  config.page_size = kPage;
  config.backend = BackendKind::cpu;

  const std::vector<std::int32_t> qo_indptr{0, 1}, kv_indptr{0, 2}, pages{1, 0}, lengths{3};
  try {
    Attention attention(spec, config);
    attention.plan(qo_indptr, kv_indptr, pages, lengths);
    attention.run({.q = {q.data(), DType::f32, {1, 1, kDim}},
                   .k = {k.data(), DType::f32, {2, kPage, 1, kDim}},
                   .v = {v.data(), DType::f32, {2, kPage, 1, kDim}},
                   .out = {out.data(), DType::f32, {1, 1, kDim}},
                   .lse = {lse.data(), DType::f32, {1, 1}}});
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }

  // Page 1 holds the values 2 and 3, page 0 goes on with 0.
  const double mean = (2 + 3 + 0) / 3.0;
  std::printf("trencadis %s: out %.6f, lse %.6f\n", TRENCADIS_VERSION_STRING, out[0], lse[0]);
  return std::abs(out[0] - mean) < 1e-6 && std::abs(lse[0] - std::log(3.0)) < 1e-6 ? 0 : 1;
}
