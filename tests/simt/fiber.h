// Stacks of their own for the threads of a CTA, and the switch from one to another.
#pragma once

#include <cstddef>

#if !defined(__x86_64__) && !defined(__aarch64__)
#define TRENCADIS_SIMT_UCONTEXT  // slow, but everywhere
#endif
#if defined(TRENCADIS_SIMT_UCONTEXT)
#include <ucontext.h>
#endif

namespace trencadis::simt {

/// A stopped computation. The one that runs has none: a switch stores it.
class Context {
 public:
  /// A switch to this context will call entry(), which never returns.
  void prepare(char* stack, std::size_t bytes, void (*entry)());

  static void switch_between(Context& from, const Context& to);

 private:
#if defined(TRENCADIS_SIMT_UCONTEXT)
  ucontext_t context_;
#else
  void* stack_pointer_ = nullptr;
#endif
};

/// Stacks that stay mapped from launch to launch, each above a page that faults.
class Stacks {
 public:
  static constexpr std::size_t kBytes = 128 * 1024;

  Stacks() = default;
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  ~Stacks();

  /// Makes room for `count`; what the stacks hold is lost if it grows.
  void reserve(int count);
  char* operator[](int index) const { return memory_ + stride_ * static_cast<std::size_t>(index); }

 private:
  void release();

  char* memory_ = nullptr;  // of the first stack, past its guard
  std::size_t guard_ = 0;
  std::size_t stride_ = 0;
  int count_ = 0;
};

}  // namespace trencadis::simt
