// Threads that wait for the next run. A layer's attention may take a hundred microseconds, so a
// worker spins for a while before it goes to sleep, and starting a run allocates nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace trencadis::cpu {

/// CPUs that this process may run on: its affinity mask, not the machine's count.
int usable_cpus();

/// The threads that `asked` means, 0 being usable_cpus(). Throws Error(invalid_argument) outside
/// 0 .. 1024.
int resolve_threads(int asked);

class ThreadPool {
 public:
  /// num_threads >= 1, the caller's thread included.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const noexcept { return num_threads_; }

  /// Calls fn(thread) for each thread in [0, size()), 0 on the calling one, and returns when all
  /// have. fn does not throw. Not to be called from two threads at once.
  template <class Fn>
  void run(Fn&& fn) {
    using Body = std::remove_reference_t<Fn>;
    run_erased([](void* body, int thread) { (*static_cast<Body*>(body))(thread); }, &fn);
  }

  /// To be called by every thread of a run: returns when all have arrived.
  void barrier() noexcept;

 private:
  void join() noexcept;
  using Call = void (*)(void* body, int thread);

  void run_erased(Call call, void* body);
  void work(int thread);

  int num_threads_;
  Call call_ = nullptr;
  void* body_ = nullptr;
  bool stop_ = false;
  // Each on a cache line of its own: one is written by the caller, the others by all.
  alignas(64) std::atomic<std::uint32_t> epoch_{0};    // a new value starts a run
  alignas(64) std::atomic<std::uint32_t> running_{0};  // workers that have not ended it
  alignas(64) std::atomic<std::uint32_t> arrived_{0};
  alignas(64) std::atomic<std::uint32_t> generation_{0};  // barriers passed
  std::vector<std::thread> workers_;
};

}  // namespace trencadis::cpu
