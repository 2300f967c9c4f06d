// Random values for the extra tensors of stock variants, by name.
#include <cmath>
#include <functional>
#include <stdexcept>

#include "support/problem.h"

namespace trencadis::testing {
namespace {

using Random = std::mt19937_64;

std::int64_t uniform(Random& random, std::int64_t first, std::int64_t last) {
  return std::uniform_int_distribution<std::int64_t>(first, last)(random);
}

HostTensor alibi_slopes(const Problem& problem, Random&) {
  std::vector<double> slopes;
  for (int h = 0; h < problem.config.heads.qo; ++h) {
    slopes.push_back(std::exp2(-8.0 * (h + 1) / problem.config.heads.qo));
  }
  return HostTensor::from(DType::f32, slopes);
}

std::int64_t mask_bytes(const Problem& problem, std::size_t b) {
  const std::int64_t rows = problem.qo_indptr[b + 1] - problem.qo_indptr[b];
  return (rows * problem.kv_lens[b] + 7) / 8;
}

/// The matrix's own mask where it has one, else random: three keys of four are kept.
HostTensor packed_mask(const Problem& problem, Random& random) {
  if (problem.matrix.mask) return HostTensor::from(DType::u8, problem.matrix.mask->bits);
  std::int64_t bytes = 0;
  for (std::size_t b = 0; b < problem.kv_lens.size(); ++b) bytes += mask_bytes(problem, b);
  HostTensor mask(DType::u8, {bytes}, 0.0);
  fill(mask.whole(), [&] { return static_cast<double>((random() | random()) & 0xff); });
  return mask;
}

HostTensor mask_indptr(const Problem& problem, Random&) {
  std::vector<std::int64_t> indptr;
  std::int64_t at = 0;
  for (std::size_t b = 0; b < problem.kv_lens.size(); ++b) {
    indptr.push_back(at);
    at += mask_bytes(problem, b);
  }
  return HostTensor::from(DType::i64, indptr);
}

HostTensor prefix_lens(const Problem& problem, Random& random) {
  std::vector<std::int64_t> lens;
  for (const std::int64_t kv_len : problem.kv_lens) lens.push_back(uniform(random, 0, kv_len));
  return HostTensor::from(DType::i32, lens);
}

/// First entry of each request in an array by the requests' KV lengths.
HostTensor kv_offsets(const Problem& problem, Random&) {
  std::vector<std::int64_t> offsets;
  std::int64_t at = 0;
  for (const std::int64_t kv_len : problem.kv_lens) {
    offsets.push_back(at);
    at += kv_len;
  }
  return HostTensor::from(DType::i64, offsets);
}

constexpr std::int64_t kDocumentTokens = 5;

std::int64_t document_at(std::int64_t position) {
  return position < 0 ? -1 : position / kDocumentTokens;
}

HostTensor q_documents(const Problem& problem, Random&) {
  std::vector<std::int64_t> documents;
  for (std::size_t b = 0; b < problem.kv_lens.size(); ++b) {
    const std::int64_t rows = problem.qo_indptr[b + 1] - problem.qo_indptr[b];
    for (std::int64_t i = 0; i < rows; ++i) {
      documents.push_back(document_at(i + problem.kv_lens[b] - rows));
    }
  }
  return HostTensor::from(DType::i32, documents);
}

HostTensor kv_documents(const Problem& problem, Random&) {
  std::vector<std::int64_t> documents;
  for (const std::int64_t kv_len : problem.kv_lens) {
    for (std::int64_t j = 0; j < kv_len; ++j) documents.push_back(document_at(j));
  }
  return HostTensor::from(DType::i32, documents);
}

HostTensor rope_inv_freq(const Problem& problem, Random&) {
  double rope_dim = problem.spec.head_dim_qk;
  for (const ExtraScalar& scalar : problem.spec.variant.scalars) {
    if (scalar.name == "rope_dim" && scalar.value > 0) rope_dim = scalar.value;
  }
  std::vector<double> frequencies;
  for (double i = 0; i < rope_dim; i += 2) frequencies.push_back(std::pow(1e4, -i / rope_dim));
  return HostTensor::from(DType::f32, frequencies);
}

HostTensor q_positions(const Problem& problem, Random& random) {
  HostTensor positions(DType::i32, {problem.nnz_q()}, 0.0);
  fill(positions.whole(), [&] { return static_cast<double>(uniform(random, 0, 5000)); });
  return positions;
}

HostTensor kv_positions(const Problem& problem, Random& random) {
  std::int64_t tokens = 0;
  for (const std::int64_t kv_len : problem.kv_lens) tokens += kv_len;
  HostTensor positions(DType::i32, {tokens}, 0.0);
  fill(positions.whole(), [&] { return static_cast<double>(uniform(random, 0, 5000)); });
  return positions;
}

}  // namespace

HostTensor make_stock_tensor(const ExtraTensor& declared, const Problem& problem, Random& random) {
  static const std::map<std::string, std::function<HostTensor(const Problem&, Random&)>> kMakers{
      {"alibi_slopes", alibi_slopes},     {"packed_mask", packed_mask},
      {"mask_indptr", mask_indptr},       {"prefix_lens", prefix_lens},
      {"q_documents", q_documents},       {"kv_documents", kv_documents},
      {"kv_document_indptr", kv_offsets}, {"rope_inv_freq", rope_inv_freq},
      {"q_positions", q_positions},       {"kv_positions", kv_positions},
      {"kv_position_indptr", kv_offsets},
  };
  const auto maker = kMakers.find(declared.name);
  if (maker == kMakers.end()) {
    throw std::invalid_argument("give the tensor '" + declared.name + "' to the builder");
  }
  return maker->second(problem, random);
}

}  // namespace trencadis::testing
