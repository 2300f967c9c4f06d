#include "backends/cpu/copy_pages.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "backends/cpu/host_tensor.h"
#include "backends/cpu/row_copy.h"
#include "base/check.h"

namespace trencadis::cpu {
namespace {

struct Pair {
  std::int64_t from, to;
};

/// The pairs that copy something.
std::vector<Pair> pairs_of(const KvPool& source, const KvPool& target, const PagePairs& pairs) {
  const IndexSpan from = index_span(pairs.from), to = index_span(pairs.to);
  const bool one_pool = source.k.data() == target.k.data();
  auto* const num_refused = pairs.num_refused.data_as<std::int32_t>();
  std::vector<Pair> result;
  std::int32_t refused = 0;
  const std::int64_t count = count_of("num_pairs", pairs.num_pairs, pairs.from.size(0));
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    if (from[i] < 0 || to[i] < 0 || (one_pool && from[i] == to[i])) continue;
    if (from[i] >= source.k.size(0) || to[i] >= target.k.size(0)) {
      base::check(num_refused != nullptr,
                  "from[{}] is {} and to[{}] is {}, expected pages below {} and {}", i, from[i], i,
                  to[i], source.k.size(0), target.k.size(0));
      ++refused;
      continue;
    }
    result.push_back({from[i], to[i]});
  }
  // The order of pairs means nothing on a GPU, so it may not matter here.
  constexpr std::int64_t kNone = -1;
  std::vector<std::int64_t> written_from(static_cast<std::size_t>(target.k.size(0)), kNone);
  for (const Pair& pair : result) {
    std::int64_t& before = written_from[static_cast<std::size_t>(pair.to)];
    base::check(before == kNone || before == pair.from,
                "page {} is copied to page {}, and so is page {}: expected one", before, pair.to,
                pair.from);
    before = pair.from;
  }
  if (one_pool)
    for (const Pair& pair : result)
      base::check(pair.from >= target.k.size(0) ||
                      written_from[static_cast<std::size_t>(pair.from)] == kNone,
                  "page {} is copied to page {}, and page {} to it: expected no page of one pool "
                  "to be read and written",
                  pair.from, pair.to, written_from[static_cast<std::size_t>(pair.from)]);
  if (num_refused != nullptr) *num_refused = count_on(*num_refused, refused);
  return result;
}

void copy_rows(const PagedRows& from, const PagedRows& to, const std::vector<Pair>& pairs) {
  RowCopy copy(from.tensor, to.tensor);
  for (const Pair& pair : pairs)
    for (std::int64_t token = 0; token < from.page_size; ++token)
      for (std::int64_t h = 0; h < from.heads; ++h)
        copy.copy(from.row(pair.from, token, h), to.row(pair.to, token, h));
}

}  // namespace

void copy_pages(const KvPool& source, const KvPool& target, const PagePairs& pairs) {
  const std::vector<Pair> found = pairs_of(source, target, pairs);
  copy_rows(PagedRows(source.k, source.layout), PagedRows(target.k, target.layout), found);
  if (source.v.defined())
    copy_rows(PagedRows(source.v, source.layout), PagedRows(target.v, target.layout), found);
}

}  // namespace trencadis::cpu
