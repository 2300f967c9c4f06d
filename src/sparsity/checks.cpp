#include "sparsity/checks.h"

#include <limits>

#include "base/check.h"

namespace trencadis::sparsity {
namespace {

using base::check;

constexpr std::int64_t kMaxIndex = std::numeric_limits<std::int32_t>::max();

}  // namespace

std::int32_t narrow(std::string_view name, std::size_t index, std::int64_t value) {
  check(value >= 0 && value <= kMaxIndex, "{}[{}] is {}, expected 0 .. {}", name, index, value,
        kMaxIndex);
  return static_cast<std::int32_t>(value);
}

std::size_t check_indptr(std::string_view name, IndexSpan indptr) {
  check(!indptr.empty(), "{} is empty, expected one entry more than there are requests", name);
  check(indptr[0] == 0, "{}[0] is {}, expected 0", name, indptr[0]);
  for (std::size_t i = 1; i < indptr.size(); ++i) {
    check(indptr[i] >= indptr[i - 1], "{}[{}] is {}, expected at least {}[{}] = {}", name, i,
          indptr[i], name, i - 1, indptr[i - 1]);
  }
  narrow(name, indptr.size() - 1, indptr[indptr.size() - 1]);
  return indptr.size() - 1;
}

void check_count(std::string_view name, std::size_t count, std::size_t requests,
                 std::string_view source) {
  check(count == requests, "length mismatch: {} has {} entries, expected {} to match {}", name,
        count, requests, source);
}

void check_block(std::string_view name, std::int64_t value) {
  check(value >= 1 && value <= kMaxIndex, "{} is {}, expected 1 .. {}", name, value, kMaxIndex);
}

}  // namespace trencadis::sparsity
