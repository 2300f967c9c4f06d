// What an attention variant is: C++ functors by name, the tensors and scalars they read, and the
// bounds of their mask. The functors themselves are written against kernels/variant/.
#pragma once

#include <trencadis/dtype.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trencadis {

/// A tensor that the functors read, passed to run() in declaration order. It must be contiguous.
struct ExtraTensor {
  std::string name;  // a C++ identifier: the functors read `p.<name>`, a typed const pointer
  DType dtype = DType::f32;
  friend bool operator==(const ExtraTensor&, const ExtraTensor&) = default;
};

/// A scalar that the functors read as `p.<name>` (float). run() may override the value.
struct ExtraScalar {
  std::string name;
  double value = 0.0;
  friend bool operator==(const ExtraScalar&, const ExtraScalar&) = default;
};

/// Key j can be visible to row i only if p - left <= j <= p + right, p = i + l_kv - l_q; -1 means
/// unbounded. Planner and kernels skip what lies outside and apply the bounds themselves.
struct MaskBounds {
  /// Far beyond any token, and far from where sums overflow.
  static constexpr std::int64_t kMost = std::int64_t{1} << 62;
  std::int64_t left = -1;
  std::int64_t right = -1;
  friend bool operator==(const MaskBounds&, const MaskBounds&) = default;
};

struct Variant {
  /// A C++ type: a stock functor, a `Chain<...>` of them, or the struct that `source` defines.
  std::string functor = "Chain<>";
  /// C++ text that defines `functor`; empty for stock variants.
  std::string source{};
  std::vector<ExtraTensor> tensors{};
  std::vector<ExtraScalar> scalars{};
  MaskBounds bounds{};
  /// False: weights are the transformed logits themselves, partial states add, there is no LSE.
  bool use_softmax = true;
  /// A logit per query head that joins the softmax denominator: a float32 [H_q] tensor given to
  /// run() as `sinks`.
  bool sinks = false;
  friend bool operator==(const Variant&, const Variant&) = default;
};

namespace variants {

/// Rotary position embedding applied to q and k inside the kernel.
struct Rope {
  bool interleaved = false;  // false: rotate-half (GPT-NeoX); true: adjacent pairs (GPT-J)
  int rotary_dim = 0;        // leading dims that rotate, even; 0: all of head_dim_qk
  double theta = 1e4;        // base
  double scale = 1.0;        // position interpolation: angles are divided by it
  /// Llama-3.1 frequency scaling; on where high_freq_factor > 0. `scale` then divides only the
  /// frequencies that turn less than low_freq_factor times in old_context_len tokens; those that
  /// turn more than high_freq_factor times are kept, and between the two the factor is blended.
  double low_freq_factor = 0.0;
  double high_freq_factor = 0.0;
  double old_context_len = 0.0;
  /// Positions of query rows and of keys come from the tensors q_positions: int32 [nnz_q],
  /// kv_positions: int32 and kv_position_indptr: int64 [B] (where a request's keys begin in
  /// kv_positions) instead of i + l_kv - l_q and j.
  bool explicit_positions = false;
};

struct SoftmaxOptions {
  bool causal = false;
  std::int64_t window_left = -1;   // inclusive; -1: unbounded
  std::int64_t window_right = -1;  // inclusive; -1: unbounded
  double soft_cap = 0.0;           // 0: none; logits become cap * tanh(logit / cap)
  bool alibi = false;              // extra tensor alibi_slopes: float32 [H_q]
  bool custom_mask = false;        // extra tensors packed_mask: uint8, mask_indptr: int64 [B] bytes
  /// Extra tensor prefix_lens: int32 [B]. Key j is visible iff j < prefix_lens[b] or j <= p: causal
  /// beyond the prefix by itself, so that `causal` and a right window, which would hide the prefix,
  /// are errors with it.
  bool prefix_lm = false;
  bool document_mask = false;  // extra tensors q_documents: int32 [nnz_q],
                               // kv_documents: int32, kv_document_indptr: int64 [B]
  bool sinks = false;
  std::optional<Rope> rope{};  // extra tensor rope_inv_freq: float32 [rotary_dim / 2]
};

/// Softmax attention with any combination of the options. Tensors and scalars are declared in the
/// order that the options' functors are composed in: rope, soft cap, ALiBi, then the masks.
/// Throws Error(invalid_argument).
Variant softmax(const SoftmaxOptions& options = {});

struct SigmoidOptions {
  bool causal = false;
  std::int64_t window_left = -1;
  std::int64_t window_right = -1;
  double bias = 0.0;  // weights are sigmoid(logit + bias)
};

/// FlashSigmoid: use_softmax = false, weights sigmoid(logit + bias).
Variant sigmoid(const SigmoidOptions& options = {});

/// A variant of the caller's own: `source` is C++ that defines `functor`, or the parts of it that
/// are not stock ("Chain<SoftCap, Mine>"); docs/variants.md says how to write one. Names are
/// checked here, the source when it is compiled. Throws Error(invalid_argument).
Variant custom(std::string functor, std::string source, std::vector<ExtraTensor> tensors = {},
               std::vector<ExtraScalar> scalars = {}, MaskBounds bounds = {},
               bool use_softmax = true);

/// The inverse frequencies that a Rope asks for, to be passed as `rope_inv_freq`:
/// float32 [rotary_dim / 2], computed in float64. Throws Error(invalid_argument).
std::vector<float> rope_inv_freq(const Rope& rope, int head_dim_qk);

}  // namespace variants
}  // namespace trencadis
