#include "serving/page_allocator.h"

#include <numeric>

#include "output/failure.h"

namespace trencadis::app {

PageAllocator::PageAllocator(std::int64_t num_pages) : num_pages_(num_pages) {
  if (num_pages < 1 || num_pages > INT32_MAX)
    fail(ErrorKind::invalid_argument, "the KV pool has {} pages, expected 1 .. {}", num_pages,
         INT32_MAX);
  free_.resize(static_cast<std::size_t>(num_pages));
  std::iota(free_.rbegin(), free_.rend(), 0);
}

bool PageAllocator::try_reserve(std::int64_t pages) {
  if (pages > available()) return false;
  reserved_ += pages;
  return true;
}

std::int32_t PageAllocator::take() {
  if (reserved_ == 0) fail(ErrorKind::internal, "a page was taken that nobody had reserved");
  --reserved_;
  const std::int32_t page = free_.back();
  free_.pop_back();
  return page;
}

void PageAllocator::release(std::span<const std::int32_t> pages, std::int64_t unused_reservation) {
  free_.insert(free_.end(), pages.begin(), pages.end());
  reserved_ -= unused_reservation;
}

}  // namespace trencadis::app
