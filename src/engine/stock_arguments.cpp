#include "engine/stock_arguments.h"

#include <cmath>

#include "base/check.h"
#include "contract/units.h"

namespace trencadis::engine {
namespace {

template <class Table, class Declared, std::size_t N>
void note_slots(const Table& table, const Declared& declared, std::array<int, N>& slots) {
  slots.fill(-1);
  for (std::size_t i = 0; i < declared.size(); ++i) {
    const std::size_t entry = codegen::index_of(table, declared[i].name);
    if (entry < N) slots[entry] = static_cast<int>(i);
  }
}

}  // namespace

StockArguments::StockArguments(const AttentionSpec& spec, Heads heads)
    : head_dim_(spec.head_dim_qk), num_qo_heads_(heads.qo) {
  const Variant& variant = spec.variant;
  stock_ = variant.source.empty() && codegen::parse_stock_chain(variant.functor).has_value();
  note_slots(codegen::kStockTensors, variant.tensors, tensor_slot_);
  note_slots(codegen::kStockScalars, variant.scalars, scalar_slot_);
}

void StockArguments::check(std::span<const TensorView> tensors,
                           const contract::AttentionParams& params, std::int64_t nnz_q,
                           bool on_host) const {
  if (!stock_) return;
  check_scalars(tensors, params);
  if (tensors.empty()) return;
  expect(tensors, "alibi_slopes", num_qo_heads_, "num_qo_heads");
  expect(tensors, "prefix_lens", params.batch, "requests");
  expect(tensors, "q_documents", nnz_q, "query tokens");
  expect(tensors, "q_positions", nnz_q, "query tokens");
  expect(tensors, "mask_indptr", params.batch, "requests");
  expect(tensors, "kv_document_indptr", params.batch, "requests");
  expect(tensors, "kv_position_indptr", params.batch, "requests");
  if (!on_host) return;
  expect_ragged(tensors, "packed_mask", "mask_indptr", params, true);
  expect_ragged(tensors, "kv_documents", "kv_document_indptr", params, false);
  expect_ragged(tensors, "kv_positions", "kv_position_indptr", params, false);
}

const TensorView* StockArguments::find(std::span<const TensorView> tensors,
                                       std::string_view name) const {
  const int slot = tensor_slot_[codegen::index_of(codegen::kStockTensors, name)];
  return slot == kAbsent ? nullptr : &tensors[static_cast<std::size_t>(slot)];
}

void StockArguments::expect(std::span<const TensorView> tensors, std::string_view name,
                            std::int64_t elements, std::string_view meaning) const {
  const TensorView* tensor = find(tensors, name);
  if (tensor == nullptr || tensor->num_elements() >= elements) return;
  base::fail(ErrorKind::invalid_argument, "{} is {}, expected at least {} elements ({})", name,
             tensor->describe(), elements, meaning);
}

/// Request b reads elements (or bits, from a whole byte on) from indptr[b] on.
void StockArguments::expect_ragged(std::span<const TensorView> tensors, std::string_view name,
                                   std::string_view indptr_name,
                                   const contract::AttentionParams& params,
                                   bool packed_bits) const {
  const TensorView* tensor = find(tensors, name);
  const TensorView* starts = find(tensors, indptr_name);
  if (tensor == nullptr || starts == nullptr) return;
  const auto* indptr = starts->data_as<std::int64_t>();
  const std::int64_t available = tensor->num_elements();
  for (std::int32_t b = 0; b < params.batch; ++b) {
    const std::int64_t queries = params.qo_indptr[b + 1] - params.qo_indptr[b];
    const std::int64_t keys = params.kv_lens[b];
    const std::int64_t needed =
        packed_bits ? contract::ceil_div<std::int64_t>(queries * keys, 8) : keys;
    if (needed == 0 || (indptr[b] >= 0 && indptr[b] <= available - needed)) continue;
    base::fail(ErrorKind::invalid_argument,
               "{} is {}, but request {} ({} rows, {} keys) reads {} elements from {}[{}] = {} on",
               name, tensor->describe(), b, queries, keys, needed, indptr_name, b, indptr[b]);
  }
}

void StockArguments::check_scalars(std::span<const TensorView> tensors,
                                   const contract::AttentionParams& params) const {
  for (std::size_t i = 0; i < scalar_slot_.size(); ++i) {
    if (scalar_slot_[i] == kAbsent) continue;
    const std::string_view name = codegen::kStockScalars[i].name;
    const double value = params.variant.scalars[scalar_slot_[i]];
    base::check(std::isfinite(value), "scalar {} is {}, expected a finite number", name, value);
    if (name == "soft_cap") {
      base::check(value > 0, "scalar soft_cap is {}, expected more than 0", value);
    } else if (name == "rope_dim") {
      const bool even = std::fmod(value, 2.0) == 0.0;
      base::check(even && value >= 0 && value <= head_dim_,
                  "scalar rope_dim is {}, expected an even number up to head_dim_qk = {}", value,
                  head_dim_);
      const auto dims = static_cast<std::int64_t>(value);
      expect(tensors, "rope_inv_freq", (dims == 0 ? head_dim_ : dims) / 2, "rope_dim / 2");
    }
  }
}

}  // namespace trencadis::engine
