// What to compute: everything that is fixed when a kernel is compiled.
#pragma once

#include <trencadis/dtype.h>
#include <trencadis/variant.h>

#include <cstdint>
#include <optional>

namespace trencadis {

enum class LseBase : std::uint8_t { natural, two };

struct AttentionSpec {
  int head_dim_qk = 128;  // D_qk
  int head_dim_vo = 0;    // D_vo; 0: D_qk
  DType dtype_q = DType::bf16;
  DType dtype_kv = DType::bf16;
  DType dtype_o = DType::bf16;
  Variant variant = {};
  LseBase lse_base = LseBase::natural;

  int vo() const noexcept { return head_dim_vo == 0 ? head_dim_qk : head_dim_vo; }
  friend bool operator==(const AttentionSpec&, const AttentionSpec&) = default;
};

/// Heads of one problem. num_qo_heads is a multiple of num_kv_heads.
struct Heads {
  int qo = 32;
  int kv = 8;
  int group() const noexcept { return qo / kv; }
};

}  // namespace trencadis
