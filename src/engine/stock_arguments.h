// The extents that the stock functors' tensors must have for the plan in force, and the values that
// their scalars may take. A functor of the user's own is not known here: its tensors are checked
// for dtype, device and contiguity only.
#pragma once

#include <trencadis/attention.h>

#include <cstdint>
#include <span>
#include <vector>

#include "contract/params.h"

namespace trencadis::engine {

class StockArguments {
 public:
  /// Finds out once which rule holds for which slot, so that check() compares numbers only.
  /// `spec` must outlive this.
  StockArguments(const AttentionSpec& spec, Heads heads);

  /// `params` holds the scalars, the plan's lengths and, on a host backend, tensors that can be
  /// read: offsets into them are followed there. O(requests). Throws Error(invalid_argument) that
  /// names the tensor, its shape and what is due.
  void check(std::span<const TensorView> tensors, const contract::AttentionParams& params,
             std::int64_t nnz_q, bool on_host) const;

 private:
  /// How many elements a tensor has at least.
  enum class Extent { per_query_head, per_request, per_query_token };
  struct ExtentRule {
    std::size_t tensor;
    Extent extent;
  };
  /// Of each request, elements (or bits) from an offset on that another tensor holds.
  struct RaggedRule {
    std::size_t tensor, starts;
    bool packed_bits;
  };

  void check_extent(std::span<const TensorView> tensors, std::size_t tensor, std::int64_t elements,
                    const char* meaning) const;
  void check_ragged(std::span<const TensorView> tensors, const RaggedRule& rule,
                    const contract::AttentionParams& params) const;
  void check_scalars(std::span<const TensorView> tensors,
                     const contract::AttentionParams& params) const;

  const Variant& variant_;
  int head_dim_;
  int num_qo_heads_;
  std::vector<ExtentRule> extents_;
  std::vector<RaggedRule> ragged_;
  std::size_t num_scalars_ = 0;  // of stock functors
  // Slots, -1 where the variant has none.
  int soft_cap_ = -1;
  int rope_dim_ = -1;
  int rope_inv_freq_ = -1;
};

}  // namespace trencadis::engine
