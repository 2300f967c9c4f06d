// What was launched last, for errors: a kernel that fails does so after its launch, and the driver
// says it at whichever call comes next.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "backends/cuda/driver_api.h"

namespace trencadis::cuda {

/// A function of a module with what errors call it: "trencadis_attention of cuda_bfloat16_d128".
struct Kernel {
  Function function = nullptr;
  const char* name = "";  // LaunchLogs::keep_name
};

/// The last launches into one context, by any number of threads. Noting one takes no lock, no
/// allocation and no text: 4 to 8 ns on a core of an EPYC server, beside the microseconds of a
/// launch.
class LaunchLog {
 public:
  static constexpr std::size_t kKept = 64;

  explicit LaunchLog(int ordinal) : ordinal_(ordinal) {}

  /// Returns the number of the launch: the first is 1.
  std::uint64_t note(const Kernel& kernel, const LaunchConfig& config) noexcept {
    const std::uint64_t number = count_.fetch_add(1, std::memory_order_relaxed) + 1;
    Entry& entry = entries_[number % kKept];
    // Who reads a field of this launch, and acquires it, sees that the number is not the old one.
    entry.number.store(0, std::memory_order_relaxed);
    entry.kernel.store(kernel.name, std::memory_order_release);
    entry.grid.store(config.grid_x, std::memory_order_release);
    entry.block.store(config.block_x, std::memory_order_release);
    entry.stream.store(config.stream, std::memory_order_release);
    entry.number.store(number, std::memory_order_release);
    return number;
  }

  /// "on cuda:0: trencadis_attention of cuda_bfloat16_d128 (grid 264 of 128 threads, stream 0x55,
  /// launch 71, 40 in all), ...": equal launches together, by their last, newest first; empty where
  /// there was none.
  std::string describe() const;

 private:
  struct Entry {
    std::atomic<std::uint64_t> number{0};  // 0: none
    std::atomic<const char*> kernel{nullptr};
    std::atomic<unsigned> grid{0}, block{0};
    std::atomic<Stream> stream{nullptr};
  };

  int ordinal_;
  std::atomic<std::uint64_t> count_{0};
  std::array<Entry, kKept> entries_;
};

/// The logs of a driver, one a device's context, and the names in them. They outlive kernels and
/// contexts: what fails may have been launched by an object that is gone. Safe for any number of
/// threads.
class LaunchLogs {
 public:
  LaunchLog& of(Context context, int ordinal);

  /// Valid as long as the logs. Names are those of kernels: few.
  const char* keep_name(std::string name);

  /// LaunchLog::describe of `context`, or of all where it has no log.
  std::string describe(Context context) const;

 private:
  mutable std::mutex mutex_;
  std::map<Context, LaunchLog> logs_;
  std::set<std::string> names_;
};

/// "grid 264 of 128 threads, stream 0x55"
std::string describe_launch(unsigned grid, unsigned block, Stream stream);

}  // namespace trencadis::cuda
