// A plan's input after validation: int32 arrays throughout, and the few totals that sizes depend
// on.
#pragma once

#include <trencadis/plan.h>

#include <cstdint>
#include <vector>

#include "contract/params.h"

namespace trencadis::planner {

/// int32 input is used where it lies, so the spans must outlive the problem's use; int64 input is
/// copied and checked, never reinterpreted. Reused from step to step: capacity is kept.
class Problem {
 public:
  /// Validates everything that lengths and indptr arrays can tell; block ids themselves are not
  /// read. `group` is g = H_q / H_kv. Throws Error(invalid_argument) that names the argument, the
  /// entry and what was expected; the problem is unusable after that.
  void assign(const PlanInput& input, int group);

  /// Throws Error(out_of_capacity), one text a limit, where the problem exceeds `limits`.
  void check_limits(const Limits& limits) const;

  std::int32_t num_requests() const { return num_requests_; }
  std::int32_t num_rows() const { return num_rows_; }                // block rows
  std::int32_t nnz_q() const { return qo_indptr_[num_requests_]; }   // query tokens
  std::int32_t num_blocks() const { return kv_.indptr[num_rows_]; }  // entries of indices
  std::int32_t max_kv_len() const { return max_kv_len_; }            // logical, of one request
  /// The query tokens of every request, or -1 where they differ; rows are requests then.
  std::int32_t common_query_len() const { return common_query_len_; }
  bool any_wide() const { return any_wide_; }

  const std::int32_t* qo_indptr() const { return qo_indptr_; }    // [num_requests + 1]
  const std::int32_t* kv_lens() const { return kv_lens_; }        // [num_requests] logical
  const std::int32_t* row_indptr() const { return row_indptr_; }  // [num_rows + 1] query tokens
  /// [num_rows], null where row r is request r.
  const std::int32_t* row_requests() const { return row_requests_; }
  /// The BSR view as kernels read it.
  const contract::BsrParams& kv() const { return kv_; }

 private:
  void resolve(const PlanInput& input);
  void check_shapes(const PlanInput& input) const;
  void check_lengths(int group);
  bool rows_have_room() const;
  bool holds_whole_requests() const;
  void check_rows() const;
  void check_positions() const;
  [[noreturn]] void explain_bad_lengths(int group) const;

  /// The eight arrays, narrowed where they came as int64.
  struct Narrowed {
    std::vector<std::int32_t> qo_indptr, kv_lens, row_indptr, row_requests;
    std::vector<std::int32_t> indptr, indices, positions, row_lens;
  };

  std::int32_t num_requests_ = 0;
  std::int32_t num_rows_ = 0;
  std::int32_t max_kv_len_ = 0;
  std::int32_t common_query_len_ = -1;
  bool any_wide_ = false;
  bool row_is_request_ = true;
  const std::int32_t* qo_indptr_ = nullptr;
  const std::int32_t* kv_lens_ = nullptr;
  const std::int32_t* row_indptr_ = nullptr;
  const std::int32_t* row_requests_ = nullptr;
  contract::BsrParams kv_{};
  Narrowed narrowed_;
};

}  // namespace trencadis::planner
