// The threads of one CTA as fibers, and who of them runs next.
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "simt/emulator.h"
#include "simt/fiber.h"

namespace trencadis::simt {

inline constexpr int kMaxThreads = 1024;
inline constexpr int kMaxWarps = kMaxThreads / kWarpSize;

class Random {  // splitmix64
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t operator()();

 private:
  std::uint64_t state_;
};

class Threads {
 public:
  /// Runs body() in each of `count` threads to the end. The first exception of one ends all: the
  /// others are unwound, and it is thrown here. Where no thread can run, idle() may release some.
  void run(int cta, int count, const std::function<void()>& body, const std::function<void()>& idle,
           Random& random);

  // For the running thread:

  int current() const { return current_; }
  int warp() const { return current_ / kWarpSize; }
  int lane() const { return current_ % kWarpSize; }

  /// The lanes of its warp that have returned from body().
  unsigned returned() const { return returned_[static_cast<std::size_t>(warp())]; }

  /// Whether another thread than this one can run.
  bool any_ready() const { return ready_warps_ != 0; }

  /// Lets parked lanes go on, the running thread's too, which must then park.
  void release(int warp, unsigned lanes);

  /// Runs others until somebody releases this thread; throws if nobody can.
  void park(const char* operation);

  /// Runs others for a while. Throws where threads have done nothing but yield for long.
  void yield(const char* operation);

 private:
  struct Fiber {
    Context context;
    bool started = false;
    bool returned = false;
    const char* waits_in = nullptr;  // an operation, while it is parked
  };

  static void enter();
  void run_body();
  void leave(Context& from);
  void unwind_all();
  Fiber& fiber() { return fibers_[static_cast<std::size_t>(current_)]; }

  void make_ready(int warp, unsigned lanes);
  int take_ready();
  int await_ready();
  void switch_to(int thread);
  std::string deadlock() const;

  Stacks stacks_;
  std::vector<Fiber> fibers_;
  Context main_;  // of run()
  const std::function<void()>* body_ = nullptr;
  const std::function<void()>* idle_ = nullptr;
  Random* random_ = nullptr;

  int cta_ = 0;
  int count_ = 0;
  int current_ = 0;
  int alive_ = 0;
  std::array<unsigned, kMaxWarps> returned_ = {};
  std::array<unsigned, kMaxWarps> ready_ = {};
  unsigned ready_warps_ = 0;
  int favourite_ = 0;              // the warp that runs while it can, but for
  std::uint64_t change_rate_ = 0;  // changes of mind, out of 2^16
  int idle_yields_ = 0;
  bool unwinding_ = false;
  std::exception_ptr error_;
};

}  // namespace trencadis::simt
