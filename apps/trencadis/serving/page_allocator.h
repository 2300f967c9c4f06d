// Pages of the KV pool. A request reserves all the pages it may need when it is admitted and takes
// them one by one as its tokens come, so a request that runs never finds the pool empty, and the
// pages of concurrent requests interleave as they do in a real server.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trencadis::app {

class PageAllocator {
 public:
  explicit PageAllocator(std::int64_t num_pages);

  std::int64_t num_pages() const { return num_pages_; }
  /// Pages that are neither taken nor reserved.
  std::int64_t available() const { return static_cast<std::int64_t>(free_.size()) - reserved_; }

  /// Sets `pages` aside; false, and nothing changes, where fewer are available.
  bool try_reserve(std::int64_t pages);
  /// One page of those reserved. Throws Error(internal) where none is.
  std::int32_t take();
  /// Gives pages back, and with them a reservation that was not used up.
  void release(std::span<const std::int32_t> pages, std::int64_t unused_reservation = 0);

 private:
  std::int64_t num_pages_;
  std::int64_t reserved_ = 0;
  std::vector<std::int32_t> free_;  // the last one given back is the next one taken
};

}  // namespace trencadis::app
