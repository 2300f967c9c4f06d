// The stock functors as data: what each reads, and the order in which they are composed. The public
// variants:: functions, the check of a variant's arguments and the CPU's built-in kernels all stand
// on this one table.
#pragma once

#include <trencadis/variant.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace trencadis::codegen {

/// A set of stock functors: bit i is kStockComponents[i].
using ComponentSet = std::uint32_t;

enum Component : ComponentSet {
  kRope = 1u << 0,
  kSoftCap = 1u << 1,
  kAlibi = 1u << 2,
  kSigmoid = 1u << 3,
  kPackedMask = 1u << 4,
  kPrefixLm = 1u << 5,
  kDocumentMask = 1u << 6,
};
inline constexpr ComponentSet kAllComponents = (1u << 7) - 1;

struct StockTensor {
  std::string_view name;
  DType dtype;
  ComponentSet component;
  /// Absent, or there with all the component's other optional tensors.
  bool optional = false;
};

struct StockScalar {
  std::string_view name;
  ComponentSet component;
};

/// In the order of composition, which is the order that attention is defined in.
inline constexpr std::array<std::string_view, 7> kStockComponents{
    "Rope", "SoftCap", "Alibi", "Sigmoid", "PackedMask", "PrefixLm", "DocumentMask"};

/// A tensor's index here is its slot in the arguments of the built-in kernels.
inline constexpr std::array<StockTensor, 11> kStockTensors{{
    {"rope_inv_freq", DType::f32, kRope},
    {"q_positions", DType::i32, kRope, true},
    {"kv_positions", DType::i32, kRope, true},
    {"kv_position_indptr", DType::i64, kRope, true},
    {"alibi_slopes", DType::f32, kAlibi},
    {"packed_mask", DType::u8, kPackedMask},
    {"mask_indptr", DType::i64, kPackedMask},
    {"prefix_lens", DType::i32, kPrefixLm},
    {"q_documents", DType::i32, kDocumentMask},
    {"kv_documents", DType::i32, kDocumentMask},
    {"kv_document_indptr", DType::i64, kDocumentMask},
}};

inline constexpr std::array<StockScalar, 4> kStockScalars{{
    {"rope_dim", kRope},
    {"rope_interleaved", kRope},
    {"soft_cap", kSoftCap},
    {"sigmoid_bias", kSigmoid},
}};

/// The index of the entry called `name`; the table's size where there is none.
template <class Table>
constexpr std::size_t index_of(const Table& table, std::string_view name) {
  std::size_t i = 0;
  while (i < table.size() && table[i].name != name) ++i;
  return i;
}

/// True where `name` is a stock functor.
bool is_stock_functor(std::string_view name);

/// The functors of "Chain<A, B>", "Chain<>" or "A", where all are stock, none twice, and in the
/// order of the table. Any other order is another function, and nullopt.
std::optional<ComponentSet> parse_stock_chain(std::string_view functor);

/// "Chain<Rope, SoftCap>"
std::string stock_chain(ComponentSet components);

/// Checks that a variant of stock functors alone declares exactly the tensors and scalars that they
/// read. Throws Error(invalid_argument | type_mismatch).
void check_stock_arguments(const Variant& variant, ComponentSet components);

}  // namespace trencadis::codegen
