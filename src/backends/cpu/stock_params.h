// The parameters of the built-in kernels: whatever any stock functor reads. A tensor's slot in
// VariantArgs is its index in codegen::kStockTensors, a scalar's its index in kStockScalars.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "codegen/stock_components.h"
#include "contract/params.h"

namespace trencadis::cpu {

static_assert(codegen::kStockTensors.size() <= contract::kMaxExtraTensors);
static_assert(codegen::kStockScalars.size() <= contract::kMaxExtraScalars);

namespace stock {

// Slots by name, looked up when this is compiled; a name or a type that the tables do not have does
// not compile.
template <class T>
constexpr DType dtype_of() {
  if (std::is_same_v<T, float>) return DType::f32;
  if (std::is_same_v<T, std::int32_t>) return DType::i32;
  if (std::is_same_v<T, std::int64_t>) return DType::i64;
  return DType::u8;
}

template <class T>
consteval std::size_t slot(std::string_view name) {
  const std::size_t i = codegen::index_of(codegen::kStockTensors, name);
  if (codegen::kStockTensors.at(i).dtype != dtype_of<T>()) throw "the table has another dtype";
  return i;
}

consteval std::size_t scalar_slot(std::string_view name) {
  const std::size_t i = codegen::index_of(codegen::kStockScalars, name);
  return codegen::kStockScalars.at(i).name.empty() ? 0 : i;
}

template <class T>
const T* as(const void* tensor) {
  return static_cast<const T*>(tensor);
}

}  // namespace stock

struct StockParams {
  const float* rope_inv_freq;
  const std::int32_t* q_positions;  // null: positions follow from the lengths; so the next two
  const std::int32_t* kv_positions;
  const std::int64_t* kv_position_indptr;
  const float* alibi_slopes;
  const std::uint8_t* packed_mask;
  const std::int64_t* mask_indptr;
  const std::int32_t* prefix_lens;
  const std::int32_t* q_documents;
  const std::int32_t* kv_documents;
  const std::int64_t* kv_document_indptr;
  float rope_dim;
  float rope_interleaved;
  float soft_cap;
  float sigmoid_bias;

  static StockParams load(const contract::VariantArgs& args) {
    const void* const* t = args.tensors;
    const double* s = args.scalars;
    return {.rope_inv_freq = stock::as<float>(t[stock::slot<float>("rope_inv_freq")]),
            .q_positions = stock::as<std::int32_t>(t[stock::slot<std::int32_t>("q_positions")]),
            .kv_positions = stock::as<std::int32_t>(t[stock::slot<std::int32_t>("kv_positions")]),
            .kv_position_indptr =
                stock::as<std::int64_t>(t[stock::slot<std::int64_t>("kv_position_indptr")]),
            .alibi_slopes = stock::as<float>(t[stock::slot<float>("alibi_slopes")]),
            .packed_mask = stock::as<std::uint8_t>(t[stock::slot<std::uint8_t>("packed_mask")]),
            .mask_indptr = stock::as<std::int64_t>(t[stock::slot<std::int64_t>("mask_indptr")]),
            .prefix_lens = stock::as<std::int32_t>(t[stock::slot<std::int32_t>("prefix_lens")]),
            .q_documents = stock::as<std::int32_t>(t[stock::slot<std::int32_t>("q_documents")]),
            .kv_documents = stock::as<std::int32_t>(t[stock::slot<std::int32_t>("kv_documents")]),
            .kv_document_indptr =
                stock::as<std::int64_t>(t[stock::slot<std::int64_t>("kv_document_indptr")]),
            .rope_dim = static_cast<float>(s[stock::scalar_slot("rope_dim")]),
            .rope_interleaved = static_cast<float>(s[stock::scalar_slot("rope_interleaved")]),
            .soft_cap = static_cast<float>(s[stock::scalar_slot("soft_cap")]),
            .sigmoid_bias = static_cast<float>(s[stock::scalar_slot("sigmoid_bias")])};
  }
};

}  // namespace trencadis::cpu
