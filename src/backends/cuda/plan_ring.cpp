#include "backends/cuda/plan_ring.h"

#include "base/check.h"

namespace trencadis::cuda {

std::byte* PlanRing::acquire(std::size_t bytes) {
  current_ = nullptr;
  if (!slots_.empty() && slots_[next_]->copied.ready()) {
    current_ = slots_[next_].get();
  } else if (slots_.size() < kMaxSlots) {
    // In front of the oldest, which is where the youngest belongs in a circle.
    current_ = slots_
                   .emplace(slots_.begin() + static_cast<std::ptrdiff_t>(next_),
                            std::make_unique<Slot>(context_))
                   ->get();
  } else {
    slots_[next_]->copied.wait();
    current_ = slots_[next_].get();
  }
  grow(*current_, bytes);
  return current_->memory.data();
}

void PlanRing::grow(Slot& slot, std::size_t bytes) const {
  if (slot.memory.bytes() >= bytes) return;
  slot.memory = PinnedBuffer(context_, bytes + bytes / 2);
}

void PlanRing::submit(DevicePointer device, std::size_t bytes, Stream stream) {
  base::ensure(current_ != nullptr && bytes <= current_->memory.bytes(),
               "a plan of {} bytes is submitted from a slot that holds fewer", bytes);
  context_->driver().memcpy_htod_async(device, current_->memory.data(), bytes, stream);
  current_->copied.record(stream);
  next_ = (next_ + 1) % slots_.size();
  current_ = nullptr;
}

}  // namespace trencadis::cuda
