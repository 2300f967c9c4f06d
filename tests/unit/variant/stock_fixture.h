// A tile with the arguments of every stock functor, in the slots of the built-in kernels, and what
// each functor means in float64, written from the definitions and not from the functors.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "backends/cpu/stock_params.h"
#include "codegen/stock_components.h"
#include "cpu/variant_ops.h"

namespace trencadis::testing {

struct StockFixture {
  // Two requests of which the second is the tile's: offsets by request and by token matter.
  static constexpr int kRequest = 1;
  static constexpr int kQoBegin = 9, kQoLen = 7, kKvLen = 61;
  static constexpr int kGroup = 3, kKvHead = 2, kHeads = 9, kKeys = 40, kDim = 24;

  explicit StockFixture(std::uint64_t seed) : random(seed) {
    for (float& slope : alibi_slopes) slope = uniform(0.01f, 1.0f);
    for (std::uint8_t& byte : packed_mask) byte = static_cast<std::uint8_t>(random());
    for (std::int32_t& document : q_documents) document = static_cast<std::int32_t>(random() % 3);
    for (std::int32_t& document : kv_documents) document = static_cast<std::int32_t>(random() % 3);
    for (float& frequency : rope_inv_freq) frequency = uniform(1e-4f, 1.0f);
    for (std::int32_t& position : q_positions)
      position = static_cast<std::int32_t>(random() % 9999);
    for (std::int32_t& position : kv_positions)
      position = static_cast<std::int32_t>(random() % 9999);
    // Ascending with gaps, as a block-sparse row gives them.
    for (int column = 0; column < kKeys; ++column)
      positions[static_cast<std::size_t>(column)] = column + column / 2 + 1;

    set("rope_inv_freq", rope_inv_freq.data());
    set("alibi_slopes", alibi_slopes.data());
    set("packed_mask", packed_mask.data());
    set("mask_indptr", mask_indptr.data());
    set("prefix_lens", prefix_lens.data());
    set("q_documents", q_documents.data());
    set("kv_documents", kv_documents.data());
    set("kv_document_indptr", kv_document_indptr.data());
    set_scalar("soft_cap", 3.0);
    set_scalar("sigmoid_bias", -0.5);
    set_scalar("rope_dim", 16.0);
  }

  void use_explicit_positions() {
    set("q_positions", q_positions.data());
    set("kv_positions", kv_positions.data());
    set("kv_position_indptr", kv_document_indptr.data());
  }

  void set(std::string_view name, const void* data) {
    args.tensors[codegen::index_of(codegen::kStockTensors, name)] = data;
  }
  void set_scalar(std::string_view name, double value) {
    args.scalars[codegen::index_of(codegen::kStockScalars, name)] = value;
  }
  double scalar(std::string_view name) const {
    return args.scalars[codegen::index_of(codegen::kStockScalars, name)];
  }

  float uniform(float low, float high) {
    return std::uniform_real_distribution<float>(low, high)(random);
  }
  std::vector<float> random_tile(int rows, int columns) {
    std::vector<float> elements(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns));
    for (float& x : elements) x = uniform(-8.0f, 8.0f);
    return elements;
  }

  int token(int row) const { return (tile.first_row + row) / kGroup; }
  int head(int row) const { return kKvHead * kGroup + (tile.first_row + row) % kGroup; }
  int diagonal(int row) const { return token(row) + kKvLen - kQoLen; }

  double transformed(codegen::ComponentSet components, double logit, int row, int column) const {
    if (components & codegen::kSoftCap)
      logit = scalar("soft_cap") * std::tanh(logit / scalar("soft_cap"));
    if (components & codegen::kAlibi)
      logit += static_cast<double>(alibi_slopes[static_cast<std::size_t>(head(row))]) *
               (positions[static_cast<std::size_t>(column)] - diagonal(row));
    if (components & codegen::kSigmoid)
      logit = 1.0 / (1.0 + std::exp(-(logit + scalar("sigmoid_bias"))));
    return logit;
  }

  bool visible(codegen::ComponentSet components, int row, int column) const {
    const int key = positions[static_cast<std::size_t>(column)];
    if (components & codegen::kPackedMask) {
      const auto bit = static_cast<std::size_t>(token(row) * kKvLen + key);
      const auto byte = static_cast<std::size_t>(mask_indptr[kRequest]) + bit / 8;
      if (((packed_mask[byte] >> (bit % 8)) & 1) == 0) return false;
    }
    if ((components & codegen::kPrefixLm) && key >= prefix_lens[kRequest] && key > diagonal(row))
      return false;
    if (components & codegen::kDocumentMask) {
      const auto document = static_cast<std::size_t>(kv_document_indptr[kRequest] + key);
      if (kv_documents[document] != q_documents[static_cast<std::size_t>(kQoBegin + token(row))])
        return false;
    }
    return true;
  }

  std::mt19937_64 random;
  cpu::TileCoord tile{.request = kRequest,
                      .first_row = 4,  // not at the head of a group
                      .rows = 11,
                      .group = kGroup,
                      .kv_head = kKvHead,
                      .qo_begin = kQoBegin,
                      .qo_len = kQoLen,
                      .kv_len = kKvLen};
  contract::VariantArgs args{};
  std::vector<int> positions = std::vector<int>(kKeys);
  std::vector<float> alibi_slopes = std::vector<float>(kHeads);
  std::vector<std::uint8_t> packed_mask = std::vector<std::uint8_t>(128);
  std::vector<std::int64_t> mask_indptr{0, 13};
  std::vector<std::int32_t> prefix_lens{3, 58};
  std::vector<std::int32_t> q_documents = std::vector<std::int32_t>(kQoBegin + kQoLen);
  std::vector<std::int32_t> kv_documents = std::vector<std::int32_t>(17 + kKvLen);
  std::vector<std::int64_t> kv_document_indptr{0, 17};
  std::vector<float> rope_inv_freq = std::vector<float>(kDim / 2);
  std::vector<std::int32_t> q_positions = std::vector<std::int32_t>(kQoBegin + kQoLen);
  std::vector<std::int32_t> kv_positions = std::vector<std::int32_t>(17 + kKvLen);
};

}  // namespace trencadis::testing
