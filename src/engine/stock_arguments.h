// The extents that the stock functors' tensors must have for the plan in force, and the values that
// their scalars may take. A functor of the user's own is not known here: its tensors are checked
// for dtype, device and contiguity only.
#pragma once

#include <trencadis/attention.h>

#include <array>

#include "codegen/stock_components.h"
#include "contract/params.h"

namespace trencadis::engine {

class StockArguments {
 public:
  explicit StockArguments(const AttentionSpec& spec, Heads heads);

  /// `params` holds the scalars, the plan's lengths and, on a host backend, tensors that can be
  /// read: offsets into them are followed there. O(requests). Throws Error(invalid_argument) that
  /// names the tensor, its shape and what is due.
  void check(std::span<const TensorView> tensors, const contract::AttentionParams& params,
             std::int64_t nnz_q, bool on_host) const;

 private:
  const TensorView* find(std::span<const TensorView> tensors, std::string_view name) const;
  void expect(std::span<const TensorView> tensors, std::string_view name, std::int64_t elements,
              std::string_view meaning) const;
  void expect_ragged(std::span<const TensorView> tensors, std::string_view name,
                     std::string_view indptr_name, const contract::AttentionParams& params,
                     bool packed_bits) const;
  void check_scalars(std::span<const TensorView> tensors,
                     const contract::AttentionParams& params) const;

  static constexpr int kAbsent = -1;
  bool stock_ = false;
  int head_dim_ = 0;
  int num_qo_heads_ = 0;
  // Where the variant declares each entry of the stock tables.
  std::array<int, codegen::kStockTensors.size()> tensor_slot_{};
  std::array<int, codegen::kStockScalars.size()> scalar_slot_{};
};

}  // namespace trencadis::engine
