#include "backends/cuda/plan_ring.h"

#include <trencadis/error.h>

#include <utility>

#include "base/check.h"

namespace trencadis::cuda {

PlanRing::~PlanRing() {
  for (const std::unique_ptr<Slot>& slot : slots_) {
    try {
      slot->copied.wait();
    } catch (const Error&) {
      // The driver left first, or the device has failed: no copy is under way.
    }
  }
}

std::byte* PlanRing::acquire(std::size_t bytes) {
  current_ = nullptr;
  if (step_back_to_youngest() || (!slots_.empty() && slots_[next_]->copied.ready())) {
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

/// Where the latest copy is done its slot becomes the next: a ring that was long once need not go
/// round for ever, through memory that no cache holds any more.
bool PlanRing::step_back_to_youngest() {
  if (slots_.size() < 2) return false;
  const std::size_t youngest = (next_ == 0 ? slots_.size() : next_) - 1;
  if (!slots_[youngest]->copied.ready()) return false;
  next_ = youngest;
  return true;
}

void PlanRing::grow(Slot& slot, std::size_t bytes) const {
  if (slot.memory.bytes() >= bytes) return;
  slot.memory = PinnedBuffer(context_, bytes + bytes / 2);
}

void PlanRing::submit(DevicePointer device, std::size_t bytes, Stream stream) {
  base::ensure(current_ != nullptr && bytes <= current_->memory.bytes(),
               "a plan of {} bytes is submitted from a slot that holds fewer", bytes);
  const Slot& slot = *std::exchange(current_, nullptr);
  try {
    context_->driver().memcpy_htod_async(device, slot.memory.data(), bytes, stream);
    slot.copied.record(stream);
  } catch (const Error&) {
    settle(stream);
    throw;
  }
  next_ = (next_ + 1) % slots_.size();
}

/// After a failure the copy may be under way, and the event tells nothing of it.
void PlanRing::settle(Stream stream) {
  if (context_->driver().stream_synchronize.status(stream) == Status::success) return;
  aside_.push_back(std::move(slots_[next_]));
  slots_.erase(slots_.begin() + static_cast<std::ptrdiff_t>(next_));
  if (next_ == slots_.size()) next_ = 0;
}

}  // namespace trencadis::cuda
