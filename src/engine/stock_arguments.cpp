#include "engine/stock_arguments.h"

#include <cmath>
#include <string_view>

#include "base/check.h"
#include "codegen/stock_components.h"
#include "contract/units.h"

namespace trencadis::engine {
namespace {

/// The slot of what is declared as `name`, -1 where nothing is.
template <class Declared>
int slot_of(const std::vector<Declared>& declared, std::string_view name) {
  for (std::size_t i = 0; i < declared.size(); ++i) {
    if (declared[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

StockArguments::StockArguments(const AttentionSpec& spec, Heads heads)
    : variant_(spec.variant), head_dim_(spec.head_dim_qk), num_qo_heads_(heads.qo) {
  if (!variant_.source.empty() || !codegen::parse_stock_chain(variant_.functor)) return;
  const struct {
    std::string_view name;
    Extent extent;
  } extents[] = {
      {"alibi_slopes", Extent::per_query_head},    {"prefix_lens", Extent::per_request},
      {"mask_indptr", Extent::per_request},        {"kv_document_indptr", Extent::per_request},
      {"kv_position_indptr", Extent::per_request}, {"q_documents", Extent::per_query_token},
      {"q_positions", Extent::per_query_token},
  };
  for (const auto& [name, extent] : extents) {
    const int slot = slot_of(variant_.tensors, name);
    if (slot >= 0) extents_.push_back({static_cast<std::size_t>(slot), extent});
  }
  const struct {
    std::string_view name, starts;
    bool packed_bits;
  } ragged[] = {{"packed_mask", "mask_indptr", true},
                {"kv_documents", "kv_document_indptr", false},
                {"kv_positions", "kv_position_indptr", false}};
  for (const auto& [name, starts_name, packed_bits] : ragged) {
    const int tensor = slot_of(variant_.tensors, name);
    const int starts = slot_of(variant_.tensors, starts_name);
    if (tensor < 0 || starts < 0) continue;
    ragged_.push_back(
        {static_cast<std::size_t>(tensor), static_cast<std::size_t>(starts), packed_bits});
  }
  num_scalars_ = variant_.scalars.size();
  soft_cap_ = slot_of(variant_.scalars, "soft_cap");
  rope_dim_ = slot_of(variant_.scalars, "rope_dim");
  rope_inv_freq_ = slot_of(variant_.tensors, "rope_inv_freq");
}

void StockArguments::check(std::span<const TensorView> tensors,
                           const contract::AttentionParams& params, std::int64_t nnz_q,
                           bool on_host) const {
  check_scalars(tensors, params);
  for (const auto& [tensor, extent] : extents_) {
    switch (extent) {
      case Extent::per_query_head:
        check_extent(tensors, tensor, num_qo_heads_, "num_qo_heads");
        break;
      case Extent::per_request:
        check_extent(tensors, tensor, params.batch, "requests");
        break;
      case Extent::per_query_token:
        check_extent(tensors, tensor, nnz_q, "query tokens");
        break;
    }
  }
  if (!on_host) return;
  for (const RaggedRule& rule : ragged_) check_ragged(tensors, rule, params);
}

void StockArguments::check_extent(std::span<const TensorView> tensors, std::size_t tensor,
                                  std::int64_t elements, const char* meaning) const {
  base::check(tensors[tensor].num_elements() >= elements,
              "{} is {}, expected at least {} elements ({})", variant_.tensors[tensor].name,
              tensors[tensor], elements, meaning);
}

/// Request b reads elements (or bits, from a whole byte on) from indptr[b] on.
void StockArguments::check_ragged(std::span<const TensorView> tensors, const RaggedRule& rule,
                                  const contract::AttentionParams& params) const {
  const auto* indptr = tensors[rule.starts].data_as<std::int64_t>();
  const std::int64_t available = tensors[rule.tensor].num_elements();
  for (std::int32_t b = 0; b < params.batch; ++b) {
    const std::int64_t queries = params.qo_indptr[b + 1] - params.qo_indptr[b];
    const std::int64_t keys = params.kv_lens[b];
    const std::int64_t needed =
        rule.packed_bits ? contract::ceil_div<std::int64_t>(queries * keys, 8) : keys;
    if (needed == 0 || (indptr[b] >= 0 && indptr[b] <= available - needed)) continue;
    base::fail(ErrorKind::invalid_argument,
               "{} is {}, but request {} ({} rows, {} keys) reads {} elements from {}[{}] = {} on",
               variant_.tensors[rule.tensor].name, tensors[rule.tensor], b, queries, keys, needed,
               variant_.tensors[rule.starts].name, b, indptr[b]);
  }
}

void StockArguments::check_scalars(std::span<const TensorView> tensors,
                                   const contract::AttentionParams& params) const {
  const auto& scalars = params.variant.scalars;
  for (std::size_t i = 0; i < num_scalars_; ++i) {
    base::check(std::isfinite(scalars[i]), "scalar {} is {}, expected a finite number",
                variant_.scalars[i].name, scalars[i]);
  }
  if (soft_cap_ >= 0) {
    base::check(scalars[soft_cap_] > 0, "scalar soft_cap is {}, expected more than 0",
                scalars[soft_cap_]);
  }
  if (rope_dim_ >= 0) {
    const double value = scalars[rope_dim_];
    const bool even = std::fmod(value, 2.0) == 0.0;
    base::check(even && value >= 0 && value <= head_dim_,
                "scalar rope_dim is {}, expected an even number up to head_dim_qk = {}", value,
                head_dim_);
    const auto dims = static_cast<std::int64_t>(value);
    check_extent(tensors, static_cast<std::size_t>(rope_inv_freq_),
                 (dims == 0 ? head_dim_ : dims) / 2, "rope_dim / 2");
  }
}

}  // namespace trencadis::engine
