// Plans on their way to a device. A plan is written into a slot of pinned memory and copied from
// there in the order of a stream; a slot is used again, or freed, once its copy is done, which an
// event tells.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "backends/cuda/resources.h"

namespace trencadis::cuda {

class PlanRing {
 public:
  explicit PlanRing(ContextPointer context) : context_(std::move(context)) {}
  PlanRing(const PlanRing&) = delete;
  PlanRing& operator=(const PlanRing&) = delete;
  /// Waits for the copies that are under way.
  ~PlanRing();

  /// Memory for `bytes` that no copy reads: of the youngest slot where its copy is done, else of
  /// the oldest. Where both are under way a slot is added, up to kMaxSlots; then this waits for the
  /// oldest. Throws Error(device | out_of_capacity).
  std::byte* acquire(std::size_t bytes);

  /// Copies the first `bytes` of what acquire() gave last to `device`, in the order of `stream`.
  /// The context is current. Throws Error(device): `device` may have been written then, and the
  /// ring is as before but for a slot that it sets aside where the stream cannot be waited for.
  void submit(DevicePointer device, std::size_t bytes, Stream stream);

  std::size_t slots() const noexcept { return slots_.size(); }

  /// A hundred steps ahead of the device is further than any loop gets.
  static constexpr std::size_t kMaxSlots = 128;

 private:
  struct Slot {
    explicit Slot(const ContextPointer& context) : copied(context) {}
    PinnedBuffer memory;
    Event copied;
  };

  bool step_back_to_youngest();
  void grow(Slot& slot, std::size_t bytes) const;
  void settle(Stream stream);

  ContextPointer context_;
  std::vector<std::unique_ptr<Slot>> slots_;  // in a circle
  std::size_t next_ = 0;                      // the oldest; the youngest lies in front of it
  std::vector<std::unique_ptr<Slot>> aside_;  // that a copy may read, nobody knows until when
  Slot* current_ = nullptr;                   // slots_[next_]
};

}  // namespace trencadis::cuda
