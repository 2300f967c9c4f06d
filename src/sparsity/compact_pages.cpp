// Which pages to move so that those of a table are the first of their pool.
#include <trencadis/kv_cache.h>

#include <algorithm>
#include <cstddef>
#include <limits>

#include "base/check.h"

namespace trencadis {
namespace {

/// The entries of `indices` that rows name: [begin, end).
struct Entries {
  std::size_t begin = 0;
  std::size_t end = 0;
};

Entries entries_of(const BlockSparseView& table) {
  const IndexSpan& indptr = table.indptr;
  base::check(!indptr.empty(), "the table's indptr is empty, expected [rows + 1]");
  base::check(indptr[0] >= 0, "the table's indptr[0] is {}, expected 0 or more", indptr[0]);
  for (std::size_t row = 1; row < indptr.size(); ++row)
    base::check(indptr[row] >= indptr[row - 1],
                "the table's indptr[{}] is {}, expected at least indptr[{}] = {}", row, indptr[row],
                row - 1, indptr[row - 1]);
  const std::int64_t end = indptr[indptr.size() - 1];
  base::check(!table.indices.empty() || end == indptr[0],
              "the table has no indices, expected pages that can be moved: a contiguous table "
              "names its blocks by where they lie");
  base::check(end <= static_cast<std::int64_t>(table.indices.size()),
              "the table's indptr ends with {}, expected at most the {} entries of indices", end,
              table.indices.size());
  return {static_cast<std::size_t>(indptr[0]), static_cast<std::size_t>(end)};
}

}  // namespace

Compaction compact_pages(const BlockSparseView& table, std::int64_t pool_pages) {
  constexpr std::int64_t kMaxPages = std::numeric_limits<std::int32_t>::max();
  base::check(pool_pages >= 0 && pool_pages <= kMaxPages, "pool_pages is {}, expected 0 to {}",
              pool_pages, kMaxPages);
  const Entries entries = entries_of(table);
  std::vector<bool> used(static_cast<std::size_t>(pool_pages), false);
  for (std::size_t i = entries.begin; i < entries.end; ++i) {
    const std::int64_t page = table.indices[i];
    base::check(page >= 0 && page < pool_pages,
                "the table's indices[{}] is {}, expected a page of the pool, 0 to {}", i, page,
                pool_pages - 1);
    used[static_cast<std::size_t>(page)] = true;
  }

  Compaction result;
  result.pages_used = std::count(used.begin(), used.end(), true);
  const auto first_beyond = static_cast<std::int32_t>(result.pages_used);
  std::vector<std::int32_t> moved_to(used.size() -
                                     static_cast<std::size_t>(first_beyond));  // of those beyond
  std::int32_t free = 0;
  for (std::int32_t page = first_beyond; page < pool_pages; ++page) {
    if (!used[static_cast<std::size_t>(page)]) continue;
    while (used[static_cast<std::size_t>(free)]) ++free;
    result.from.push_back(page);
    result.to.push_back(free);
    moved_to[static_cast<std::size_t>(page - first_beyond)] = free++;
  }

  result.indices.reserve(table.indices.size());
  for (std::size_t i = 0; i < table.indices.size(); ++i) {
    const std::int64_t page = table.indices[i];
    const bool named = i >= entries.begin && i < entries.end;
    base::check(page >= std::numeric_limits<std::int32_t>::min() && page <= kMaxPages,
                "the table's indices[{}] is {}, beyond the 32-bit range of pages", i, page);
    result.indices.push_back(named && page >= first_beyond
                                 ? moved_to[static_cast<std::size_t>(page - first_beyond)]
                                 : static_cast<std::int32_t>(page));
  }
  return result;
}

}  // namespace trencadis
