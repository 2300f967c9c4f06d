// What a process makes once and keeps, by key.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace trencadis::jit {

/// Safe for any number of threads; two that ask for one key share one making, and other keys do not
/// wait for it. A making that throws leaves nothing, and the next caller tries again.
///
/// Value tells whether a compiler ran for the call: it has `from_cache` and `seconds`.
template <class Value>
class OncePerKey {
 public:
  template <class Make>
  Value get(const std::string& key, Make make) {
    const std::shared_ptr<Slot> slot = slot_of(key);
    const std::lock_guard lock(slot->mutex);
    if (!slot->value) return slot->value.emplace(make());
    Value value = *slot->value;
    value.from_cache = true;
    value.seconds = 0.0;
    return value;
  }

 private:
  struct Slot {
    std::mutex mutex;  // held while the value is made
    std::optional<Value> value;
  };

  std::shared_ptr<Slot> slot_of(const std::string& key) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Slot>& place = slots_[key];
    if (!place) place = std::make_shared<Slot>();
    return place;
  }

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Slot>> slots_;
};

}  // namespace trencadis::jit
