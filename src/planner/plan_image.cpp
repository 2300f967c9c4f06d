#include "planner/plan_image.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "contract/units.h"

namespace trencadis::planner {
namespace {

struct Array {
  const std::int32_t* data;
  std::int64_t count;
  std::int64_t contract::PlanHeader::*offset;
};

constexpr int kArrays = 6;

constexpr std::int64_t array_bytes(std::int64_t count) {
  return contract::ceil_div<std::int64_t>(count * 4, 16) * 16;
}

/// Arrays that are not there have no data.
struct Arrays {
  explicit Arrays(const StepArrays& p)
      : all{{p.qo_indptr, p.batch + std::int64_t{1}, &contract::PlanHeader::qo_indptr_offset},
            {p.kv_lens, p.batch, &contract::PlanHeader::kv_lens_offset},
            {p.kv.indptr, p.kv.rows + std::int64_t{1}, &contract::PlanHeader::block_indptr_offset},
            {p.kv.indices, p.kv.indptr[p.kv.rows], &contract::PlanHeader::block_indices_offset},
            {p.kv.positions, p.kv.indptr[p.kv.rows], &contract::PlanHeader::block_positions_offset},
            {p.kv.kv_lens, p.kv.rows, &contract::PlanHeader::row_lens_offset}} {}
  Array all[kArrays];
};

}  // namespace

StepArrays::StepArrays(const Problem& problem)
    : batch(problem.num_requests()),
      qo_indptr(problem.qo_indptr()),
      kv_lens(problem.kv_lens()),
      kv(problem.kv()) {}

StepArrays::StepArrays(const contract::AttentionParams& params)
    : batch(params.batch), qo_indptr(params.qo_indptr), kv_lens(params.kv_lens), kv(params.kv) {}

std::int64_t image_bytes(const contract::PlanView& plan, const StepArrays& step) {
  std::int64_t bytes = plan.header->bytes;
  for (const Array& array : Arrays(step).all)
    bytes += array.data != nullptr ? array_bytes(array.count) : 0;
  return bytes;
}

void write_image(const contract::PlanView& plan, const StepArrays& step, std::byte* out) {
  std::memcpy(out, plan.header, static_cast<std::size_t>(plan.header->bytes));
  auto& header = *reinterpret_cast<contract::PlanHeader*>(out);
  std::int64_t at = header.bytes;
  for (const Array& array : Arrays(step).all) {
    if (array.data == nullptr) continue;
    const auto used = static_cast<std::size_t>(array.count) * 4;
    const auto padded = static_cast<std::size_t>(array_bytes(array.count));
    std::memcpy(out + at, array.data, used);
    std::memset(out + at + used, 0, padded - used);  // equal steps are equal bytes
    header.*array.offset = at;
    at += static_cast<std::int64_t>(padded);
  }
  header.bytes = at;
}

namespace {

/// A block row is a request's, or holds tokens; a view of more, some of them empty, does not
/// travel.
std::int64_t max_rows(const Limits& limits) {
  return std::max(limits.max_batch, limits.max_qo_tokens);
}

}  // namespace

std::int64_t arrays_bound(const Limits& limits) {
  base::check(limits.max_batch > 0,
              "limits.max_batch is 0, expected a bound: the arrays of a step travel to the device");
  base::check(limits.max_pages > 0,
              "limits.max_pages is 0, expected a bound: the arrays of a step travel to the device");
  const std::int64_t rows = max_rows(limits);
  return array_bytes(limits.max_batch + 1) + array_bytes(limits.max_batch) + array_bytes(rows + 1) +
         array_bytes(rows) + 2 * array_bytes(limits.max_pages);
}

void check_rows(const Problem& problem, const Limits& limits) {
  if (problem.num_rows() <= max_rows(limits)) return;
  base::fail(ErrorKind::out_of_capacity,
             "the view has {} block rows, limits.max_batch {} and limits.max_qo_tokens {} allow as "
             "many as the larger of them",
             problem.num_rows(), limits.max_batch, limits.max_qo_tokens);
}

}  // namespace trencadis::planner
