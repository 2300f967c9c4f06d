// Every stock functor in one device function: it is compiled, never run. The parameters are what
// generated code declares, with the fundamental types that NVRTC has without headers.
#include "variant/concept.h"
#include "variant/element_types.h"
#include "variant/stock.h"

using namespace trencadis::variant;

struct Params {
  const float* rope_inv_freq;
  const int* q_positions;
  const int* kv_positions;
  const long long* kv_position_indptr;
  const float* alibi_slopes;
  const unsigned char* packed_mask;
  const long long* mask_indptr;
  const int* prefix_lens;
  const int* q_documents;
  const int* kv_documents;
  const long long* kv_document_indptr;
  const BFloat16* bias;
  const Float16* scale;
  float rope_dim;
  float rope_interleaved;
  float soft_cap;
  float sigmoid_bias;
};

/// A user's functor: it needs no word that only a host compiler knows.
struct ScaledBias {
  static constexpr HookSet hooks = kLogitsTransform | kValueTransform | kOutputTransform;
  template <class P>
  TRENCADIS_FN static float logits_transform(const P& p, float logit, const LogitCoord& at) {
    return logit + p.bias[at.kv_pos] * exp_f32(-logit);
  }
  template <class P, class Row>
  TRENCADIS_FN static float value_transform(const P& p, const Row& row, int dim, const KeyCoord&) {
    return row[dim] * p.scale[dim];
  }
  template <class P>
  TRENCADIS_FN static float output_transform(const P&, float value, int, const RowCoord&) {
    return tanh_f32(value);
  }
};

using Every = Chain<Rope, SoftCap, Alibi, Sigmoid, PackedMask, PrefixLm, DocumentMask, ScaledBias>;

struct SharedRow {
  const float* elements;
  int dim;
  __device__ float operator[](int d) const { return elements[d]; }
  __device__ int size() const { return dim; }
};

extern "C" __global__ void use_every_functor(Params p, const float* rows, float* out, int dim) {
  check_variant<Every, Params>();
  const int d = static_cast<int>(threadIdx.x);
  const int request = static_cast<int>(blockIdx.x);
  const SharedRow row{rows, dim};
  const RowCoord row_at{request, d, d, 0, dim, dim};
  const KeyCoord key_at{request, d, 0, dim};
  const LogitCoord at{request, d, d, d, 0, 0, dim, dim};
  const float q = Every::query_transform(p, row, d, row_at);
  const float k = Every::key_transform(p, row, d, key_at);
  const float v = Every::value_transform(p, row, d, key_at);
  const float weight = Every::logits_mask(p, at) ? Every::logits_transform(p, q * k, at) : 0.0f;
  out[d] = Every::output_transform(p, weight * v, d, row_at);
}
