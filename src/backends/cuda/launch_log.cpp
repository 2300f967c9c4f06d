#include "backends/cuda/launch_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace trencadis::cuda {
namespace {

/// Equal launches.
struct Group {
  const char* kernel;
  unsigned grid, block;
  Stream stream;
  std::uint64_t last;
  int count;
};

}  // namespace

std::string describe_launch(unsigned grid, unsigned block, Stream stream) {
  return fmt::format("grid {} of {} threads, stream {}", grid, block,
                     static_cast<const void*>(stream));
}

std::string LaunchLog::describe() const {
  std::vector<Group> groups;
  for (const Entry& entry : entries_) {
    const std::uint64_t number = entry.number.load(std::memory_order_acquire);
    const Group one{entry.kernel.load(std::memory_order_acquire),
                    entry.grid.load(std::memory_order_acquire),
                    entry.block.load(std::memory_order_acquire),
                    entry.stream.load(std::memory_order_acquire),
                    number,
                    1};
    if (number == 0 || entry.number.load(std::memory_order_relaxed) != number) continue;
    const auto same = std::ranges::find_if(groups, [&](const Group& group) {
      return group.kernel == one.kernel && group.grid == one.grid && group.block == one.block &&
             group.stream == one.stream;
    });
    if (same == groups.end()) {
      groups.push_back(one);
      continue;
    }
    same->last = std::max(same->last, number);
    same->count += 1;
  }
  if (groups.empty()) return "";
  std::ranges::sort(groups, std::ranges::greater{}, &Group::last);
  std::string text = fmt::format("on cuda:{}", ordinal_);
  const char* separator = ": ";
  for (const Group& group : groups) {
    fmt::format_to(std::back_inserter(text), "{}{} ({}, launch {}", separator, group.kernel,
                   describe_launch(group.grid, group.block, group.stream), group.last);
    if (group.count > 1) fmt::format_to(std::back_inserter(text), ", {} in all", group.count);
    text += ')';
    separator = ", ";
  }
  return text;
}

LaunchLog& LaunchLogs::of(Context context, int ordinal) {
  const std::lock_guard lock(mutex_);
  return logs_.try_emplace(context, ordinal).first->second;
}

const char* LaunchLogs::keep_name(std::string name) {
  const std::lock_guard lock(mutex_);
  return names_.insert(std::move(name)).first->c_str();
}

std::string LaunchLogs::describe(Context context) const {
  const std::lock_guard lock(mutex_);
  if (const auto found = logs_.find(context); found != logs_.end()) return found->second.describe();
  std::string text;
  for (const auto& [other, log] : logs_) {
    const std::string one = log.describe();
    if (one.empty()) continue;
    if (!text.empty()) text += "; ";
    text += one;
  }
  return text;
}

}  // namespace trencadis::cuda
