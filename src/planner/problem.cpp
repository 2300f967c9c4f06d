#include "planner/problem.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "base/check.h"

namespace trencadis::planner {
namespace {

using base::check;

constexpr std::int32_t kMaxIndex = std::numeric_limits<std::int32_t>::max();
/// Of one block row. Kernels step through it by tiles in int32, and may step a tile beyond its end.
constexpr std::int32_t kMaxKvTokens = kMaxIndex - 4096;

/// The span's own memory where it holds int32, else a checked copy in `copy`. Null where empty.
const std::int32_t* narrow(std::string_view name, IndexSpan span, std::vector<std::int32_t>& copy) {
  if (span.empty()) return nullptr;
  if (!span.wide()) return span.narrow().data();
  copy.resize(span.size());
  for (std::size_t i = 0; i < span.size(); ++i) {
    const std::int64_t value = span[i];
    // Negative values pass here: what they mean is the business of the array's own check.
    check(value >= -kMaxIndex - 1 && value <= kMaxIndex,
          "{}[{}] is {}, beyond the 32-bit range of token and block indices", name, i, value);
    copy[i] = static_cast<std::int32_t>(value);
  }
  return copy.data();
}

void check_indptr(std::string_view name, const std::int32_t* indptr, std::int32_t rows) {
  check(indptr[0] == 0, "{}[0] is {}, expected 0", name, indptr[0]);
  for (std::int32_t i = 0; i < rows; ++i) {
    check(indptr[i] <= indptr[i + 1], "{}[{}] is {}, expected at least {}[{}] = {}", name, i + 1,
          indptr[i + 1], name, i, indptr[i]);
  }
}

}  // namespace

void Problem::assign(const PlanInput& input, int group) {
  check_shapes(input);
  resolve(input);
  check_lengths(group);
  if (!row_is_request_) check_rows();
  if (kv_.positions != nullptr) check_positions();
}

void Problem::check_shapes(const PlanInput& input) const {
  const BlockSparseView& kv = input.kv;
  const std::size_t entries = input.qo_indptr.size();
  check(entries > 0, "qo_indptr is empty, expected batch + 1 entries that start with 0");
  check(entries - 1 <= static_cast<std::size_t>(kMaxIndex - 1),
        "qo_indptr has {} entries, expected at most {}", entries, kMaxIndex);
  check(input.kv_lens.size() == entries - 1,
        "length mismatch: qo_indptr has {} entries and kv_lens has {}, expected {}", entries,
        input.kv_lens.size(), entries - 1);
  check(kv.row_indptr.size() <= static_cast<std::size_t>(kMaxIndex),
        "kv.row_indptr has {} entries, expected at most {}", kv.row_indptr.size(), kMaxIndex);

  const bool own_rows = !kv.row_indptr.empty();
  const std::string_view rows_name = own_rows ? "kv.row_indptr" : "qo_indptr";
  const std::size_t row_entries = own_rows ? kv.row_indptr.size() : entries;
  check(kv.indptr.size() == row_entries,
        "length mismatch: {} has {} entries and kv.indptr has {}, expected as many", rows_name,
        row_entries, kv.indptr.size());
  check(kv.kv_lens.size() == row_entries - 1,
        "length mismatch: {} has {} entries and kv.kv_lens has {}, expected {}", rows_name,
        row_entries, kv.kv_lens.size(), row_entries - 1);
  check(kv.row_requests.empty() || own_rows,
        "kv.row_requests has {} entries without kv.row_indptr, expected both or neither",
        kv.row_requests.size());
  check(kv.row_requests.empty() || kv.row_requests.size() == row_entries - 1,
        "length mismatch: kv.row_indptr has {} entries and kv.row_requests has {}, expected {}",
        row_entries, kv.row_requests.size(), row_entries - 1);
  check(
      !kv.row_requests.empty() || row_entries <= entries,
      "kv.row_indptr has {} rows for {} requests, expected kv.row_requests to name their requests",
      row_entries - 1, entries - 1);
  check(kv.block_cols >= 1 && kv.block_cols <= kMaxIndex,
        "kv.block_cols is {}, expected 1 .. {} tokens", kv.block_cols, kMaxIndex);
}

void Problem::resolve(const PlanInput& input) {
  const BlockSparseView& kv = input.kv;
  row_is_request_ = kv.row_indptr.empty();
  any_wide_ = input.qo_indptr.wide() || input.kv_lens.wide() || kv.indptr.wide() ||
              kv.indices.wide() || kv.positions.wide() || kv.kv_lens.wide() ||
              kv.row_indptr.wide() || kv.row_requests.wide();
  num_requests_ = static_cast<std::int32_t>(input.qo_indptr.size() - 1);
  num_rows_ = static_cast<std::int32_t>(kv.indptr.size() - 1);
  qo_indptr_ = narrow("qo_indptr", input.qo_indptr, narrowed_.qo_indptr);
  kv_lens_ = narrow("kv_lens", input.kv_lens, narrowed_.kv_lens);
  row_indptr_ =
      row_is_request_ ? qo_indptr_ : narrow("kv.row_indptr", kv.row_indptr, narrowed_.row_indptr);
  row_requests_ = narrow("kv.row_requests", kv.row_requests, narrowed_.row_requests);
  kv_.indptr = narrow("kv.indptr", kv.indptr, narrowed_.indptr);
  kv_.indices = narrow("kv.indices", kv.indices, narrowed_.indices);
  kv_.positions = narrow("kv.positions", kv.positions, narrowed_.positions);
  kv_.kv_lens = narrow("kv.kv_lens", kv.kv_lens, narrowed_.row_lens);
  kv_.block_cols = kv.block_cols;
  kv_.rows = num_rows_;
  kv_.page = contract::Divisor::of(static_cast<std::int32_t>(kv.block_cols));

  // Only indptr says how many entries are used, so a longer array is not an error.
  const std::int64_t used = kv_.indptr[num_rows_];
  const auto check_entries = [used](std::string_view name, IndexSpan span) {
    check(span.empty() || static_cast<std::int64_t>(span.size()) >= used,
          "{} has {} entries, expected at least kv.indptr[-1] = {}", name, span.size(), used);
  };
  check_entries("kv.indices", kv.indices);
  check_entries("kv.positions", kv.positions);
}

// Passes without branches that gather whether anything is wrong, four entries at a time; what it
// is, is found afterwards. This is a good part of the time of a decode plan.
void Problem::check_lengths(int group) {
  std::int32_t wrong = qo_indptr_[0] | kv_.indptr[0];
  std::int32_t longest_query = 0, shortest_query = kMaxIndex, longest_kv = 0;
  for (std::int32_t b = 0; b < num_requests_; ++b) {
    wrong |= (qo_indptr_[b + 1] < qo_indptr_[b]) | (kv_lens_[b] < 0);
    const auto query = static_cast<std::int32_t>(static_cast<std::uint32_t>(qo_indptr_[b + 1]) -
                                                 static_cast<std::uint32_t>(qo_indptr_[b]));
    longest_query = std::max(longest_query, query);
    shortest_query = std::min(shortest_query, query);
    longest_kv = std::max(longest_kv, kv_lens_[b]);
  }
  std::int32_t longest_row = 0;
  for (std::int32_t r = 0; r < num_rows_; ++r) {
    wrong |= (kv_.indptr[r + 1] < kv_.indptr[r]) | (kv_.kv_lens[r] < 0);
    longest_row = std::max(longest_row, kv_.kv_lens[r]);
  }
  if (wrong != 0 || !rows_have_room() || std::int64_t{longest_query} * group > kMaxIndex ||
      std::max(longest_kv, longest_row) > kMaxKvTokens ||
      (holds_whole_requests() && kv_.kv_lens != kv_lens_ &&
       !std::equal(kv_lens_, kv_lens_ + num_requests_, kv_.kv_lens))) [[unlikely]] {
    explain_bad_lengths(group);
  }
  max_kv_len_ = longest_kv;
  const bool equal = row_is_request_ && longest_query == shortest_query;
  common_query_len_ = equal ? longest_query : -1;
}

/// Whether each row's tokens fit its blocks; indptr ascends.
bool Problem::rows_have_room() const {
  std::int32_t overfull = 0;
  if (num_blocks() * kv_.block_cols <= kMaxIndex) {  // then 32 bits hold each product
    const auto cols = static_cast<std::int32_t>(kv_.block_cols);
    for (std::int32_t r = 0; r < num_rows_; ++r)
      overfull |= (kv_.indptr[r + 1] - kv_.indptr[r]) * cols < kv_.kv_lens[r];
  } else {
    for (std::int32_t r = 0; r < num_rows_; ++r) {
      const std::int64_t blocks = kv_.indptr[r + 1] - kv_.indptr[r];
      overfull |= blocks * kv_.block_cols < kv_.kv_lens[r];
    }
  }
  return overfull == 0;
}

/// A plain page table holds all of a request's keys; a view with positions may hold a part. One
/// that holds nothing at all has no positions to tell it by.
bool Problem::holds_whole_requests() const {
  return row_is_request_ && kv_.positions == nullptr && num_blocks() > 0;
}

void Problem::explain_bad_lengths(int group) const {
  check_indptr("qo_indptr", qo_indptr_, num_requests_);
  check_indptr("kv.indptr", kv_.indptr, num_rows_);
  for (std::int32_t b = 0; b < num_requests_; ++b) {
    check(kv_lens_[b] >= 0 && kv_lens_[b] <= kMaxKvTokens, "kv_lens[{}] is {}, expected 0 to {}", b,
          kv_lens_[b], kMaxKvTokens);
    const std::int64_t rows = (std::int64_t{qo_indptr_[b + 1]} - qo_indptr_[b]) * group;
    check(rows <= kMaxIndex,
          "request {} has {} query tokens, expected at most {} for a group of {}", b, rows / group,
          kMaxIndex / group, group);
  }
  for (std::int32_t r = 0; r < num_rows_; ++r) {
    const std::int64_t tokens = kv_.kv_lens[r];
    const std::int64_t blocks = std::int64_t{kv_.indptr[r + 1]} - kv_.indptr[r];
    check(tokens >= 0 && tokens <= kMaxKvTokens, "kv.kv_lens[{}] is {}, expected 0 to {}", r,
          tokens, kMaxKvTokens);
    check(tokens <= blocks * kv_.block_cols,
          "kv.kv_lens[{}] is {}, expected at most {}: {} blocks of {} tokens by kv.indptr", r,
          tokens, blocks * kv_.block_cols, blocks, kv_.block_cols);
    if (holds_whole_requests()) {
      check(tokens == kv_lens_[r], "kv.kv_lens[{}] is {}, expected kv_lens[{}] = {}", r, tokens, r,
            kv_lens_[r]);
    }
  }
  base::fail(ErrorKind::internal, "lengths were found wrong, and no entry is");
}

void Problem::check_rows() const {
  check_indptr("kv.row_indptr", row_indptr_, num_rows_);
  check(row_indptr_[num_rows_] == nnz_q(),
        "kv.row_indptr[-1] is {}, expected the {} query tokens of qo_indptr",
        row_indptr_[num_rows_], nnz_q());
  for (std::int32_t r = 0; r < num_rows_; ++r) {
    const std::int32_t request = row_requests_ == nullptr ? r : row_requests_[r];
    check(request >= 0 && request < num_requests_, "kv.row_requests[{}] is {}, expected 0 .. {}", r,
          request, num_requests_ - 1);
    check(row_indptr_[r] == row_indptr_[r + 1] || (row_indptr_[r] >= qo_indptr_[request] &&
                                                   row_indptr_[r + 1] <= qo_indptr_[request + 1]),
          "block row {} holds query tokens {} .. {}, expected tokens of request {}: {} .. {}", r,
          row_indptr_[r], row_indptr_[r + 1], request, qo_indptr_[request],
          qo_indptr_[request + 1]);
    check(kv_.positions != nullptr || kv_.kv_lens[r] <= kv_lens_[request],
          "kv.kv_lens[{}] is {}, expected at most kv_lens[{}] = {}", r, kv_.kv_lens[r], request,
          kv_lens_[request]);
  }
}

void Problem::check_positions() const {
  for (std::int32_t r = 0; r < num_rows_; ++r) {
    const std::int32_t begin = kv_.indptr[r];
    const std::int32_t tokens = kv_.kv_lens[r];
    if (tokens == 0) continue;
    const auto last = static_cast<std::int32_t>(begin + (tokens - 1) / kv_.block_cols);
    check(kv_.positions[begin] >= 0, "kv.positions[{}] is {}, expected at least 0", begin,
          kv_.positions[begin]);
    for (std::int32_t j = begin; j < last; ++j) {
      check(kv_.positions[j] < kv_.positions[j + 1],
            "kv.positions[{}] is {}, expected more than kv.positions[{}] = {} in block row {}",
            j + 1, kv_.positions[j + 1], j, kv_.positions[j], r);
    }
    const std::int32_t request = row_requests_ == nullptr ? r : row_requests_[r];
    const std::int64_t key = kv_.positions[last] * kv_.block_cols + (tokens - 1) % kv_.block_cols;
    check(key < kv_lens_[request],
          "block row {} ends with key {} by kv.positions, expected a key of request {} below {}", r,
          key, request, kv_lens_[request]);
  }
}

void Problem::check_limits(const Limits& limits) const {
  const auto within = [](std::int64_t limit, std::int64_t value) {
    return limit == 0 || value <= limit;
  };
  if (!within(limits.max_batch, num_requests_)) {
    base::fail(ErrorKind::out_of_capacity, "the batch has {} requests, limits.max_batch is {}",
               num_requests_, limits.max_batch);
  }
  if (!within(limits.max_qo_tokens, nnz_q())) {
    base::fail(ErrorKind::out_of_capacity,
               "the batch has {} query tokens, limits.max_qo_tokens is {}", nnz_q(),
               limits.max_qo_tokens);
  }
  if (!within(limits.max_pages, num_blocks())) {
    base::fail(ErrorKind::out_of_capacity, "the block table has {} pages, limits.max_pages is {}",
               num_blocks(), limits.max_pages);
  }
  if (!within(limits.max_kv_tokens, max_kv_len_)) {
    base::fail(ErrorKind::out_of_capacity,
               "the longest request has {} KV tokens, limits.max_kv_tokens is {}", max_kv_len_,
               limits.max_kv_tokens);
  }
}

}  // namespace trencadis::planner
