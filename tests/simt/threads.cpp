#include "simt/threads.h"

#include <bit>
#include <map>
#include <stdexcept>

namespace trencadis::simt {
namespace {

constexpr int kMaxIdleYields = 1 << 23;

/// Unwinds the threads of a CTA that has failed.
struct Abandoned {};

thread_local Threads* entering = nullptr;

/// The first set bit of a non-empty mask from a random one on.
int draw_bit(unsigned mask, std::uint64_t random) {
  const int from = static_cast<int>(random % 32);
  return (std::countr_zero(std::rotr(mask, from)) + from) % 32;
}

}  // namespace

std::uint64_t Random::operator()() {
  state_ += 0x9e3779b97f4a7c15u;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

void Threads::run(int cta, int count, const std::function<void()>& body,
                  const std::function<void()>& idle, Random& random) {
  stacks_.reserve(count);
  fibers_.resize(static_cast<std::size_t>(count));
  body_ = &body;
  idle_ = &idle;
  random_ = &random;
  cta_ = cta;
  count_ = alive_ = count;
  returned_ = {};
  ready_ = {};
  ready_warps_ = 0;
  idle_yields_ = 0;
  error_ = nullptr;
  // Warps in step, far apart, and in between: a race may show in one of them only.
  constexpr std::uint64_t kRates[] = {1 << 16, 1 << 12, 0};
  change_rate_ = kRates[random() % 3];

  for (int t = 0; t < count; ++t) {
    Fiber& fiber = fibers_[static_cast<std::size_t>(t)];
    fiber.started = fiber.returned = false;
    fiber.waits_in = nullptr;
    fiber.context.prepare(stacks_[t], Stacks::kBytes, &Threads::enter);
  }
  for (int w = 0; w < count / kWarpSize; ++w) make_ready(w, ~0u);

  entering = this;
  current_ = take_ready();
  Context::switch_between(main_, fiber().context);
  if (error_) {
    unwind_all();
    std::rethrow_exception(error_);
  }
}

void Threads::unwind_all() {
  unwinding_ = true;
  for (current_ = 0; current_ < count_; ++current_) {
    if (fiber().started && !fiber().returned) Context::switch_between(main_, fiber().context);
  }
  unwinding_ = false;
}

void Threads::enter() {
  entering->run_body();
}

void Threads::run_body() {
  Fiber& self = fiber();
  self.started = true;
  try {
    (*body_)();
  } catch (const Abandoned&) {
  } catch (...) {
    error_ = std::current_exception();
  }
  // Outside of the handlers: the runtime keeps its record of exceptions a thread, not a fiber.
  self.returned = true;
  returned_[static_cast<std::size_t>(warp())] |= 1u << lane();
  idle_yields_ = 0;
  alive_ -= 1;
  leave(self.context);
}

/// From a thread that has returned to another, or to run() after the last and after a failure.
void Threads::leave(Context& from) {
  int next = -1;
  if (!unwinding_ && !error_ && alive_ > 0) {
    try {
      next = await_ready();
      if (next < 0) throw std::runtime_error(deadlock());
    } catch (...) {
      error_ = std::current_exception();
    }
  }
  if (next < 0) return Context::switch_between(from, main_);
  current_ = next;
  Context::switch_between(from, fiber().context);
}

void Threads::make_ready(int warp, unsigned lanes) {
  ready_[static_cast<std::size_t>(warp)] |= lanes;
  ready_warps_ |= 1u << warp;
}

/// Draws a thread of those that can run.
int Threads::take_ready() {
  const std::uint64_t random = (*random_)();
  const bool keep = (ready_warps_ >> favourite_ & 1u) != 0 && (random & 0xffff) >= change_rate_;
  if (!keep) favourite_ = draw_bit(ready_warps_, random >> 16);
  unsigned& ready = ready_[static_cast<std::size_t>(favourite_)];
  const int lane = draw_bit(ready, random >> 32);
  ready &= ~(1u << lane);
  if (ready == 0) ready_warps_ &= ~(1u << favourite_);
  return favourite_ * kWarpSize + lane;
}

/// Draws a thread, if need be of those that idle() releases; -1 if none can run.
int Threads::await_ready() {
  if (ready_warps_ == 0) (*idle_)();
  return ready_warps_ == 0 ? -1 : take_ready();
}

void Threads::switch_to(int thread) {
  if (thread == current_) return;
  Context& from = fiber().context;
  current_ = thread;
  Context::switch_between(from, fiber().context);
  if (unwinding_) throw Abandoned{};
}

void Threads::release(int warp, unsigned lanes) {
  make_ready(warp, lanes);
  idle_yields_ = 0;
}

void Threads::park(const char* operation) {
  Fiber& self = fiber();
  self.waits_in = operation;
  const int next = await_ready();
  if (next < 0) throw std::runtime_error(deadlock());
  switch_to(next);
  self.waits_in = nullptr;
}

void Threads::yield(const char* operation) {
  if (++idle_yields_ > kMaxIdleYields) fail(operation, "it waits for what never comes");
  make_ready(warp(), 1u << lane());
  // Any warp: the thread may spin until another has run.
  favourite_ = draw_bit(ready_warps_, (*random_)());
  switch_to(take_ready());
}

std::string Threads::deadlock() const {
  std::string text = "CTA " + std::to_string(cta_) + ": no thread can run";
  for (int w = 0; w < count_ / kWarpSize; ++w) {
    std::map<std::string, int> lanes;
    for (int l = 0; l < kWarpSize; ++l) {
      const Fiber& fiber = fibers_[static_cast<std::size_t>(w * kWarpSize + l)];
      lanes[fiber.returned ? "returned" : std::string("in ") + fiber.waits_in] += 1;
    }
    text += "; warp " + std::to_string(w) + ":";
    const char* separator = " ";
    for (const auto& [where, number] : lanes) {
      text += separator + std::to_string(number) + " lanes " + where;
      separator = ", ";
    }
  }
  return text;
}

}  // namespace trencadis::simt
