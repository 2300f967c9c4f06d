#include "backends/cpu/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <system_error>

#include "base/check.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace trencadis::cpu {
namespace {

/// About 20 microseconds on a core of 3 GHz: longer than the gap between two layers of a step,
/// shorter than anybody would notice.
constexpr int kSpins = 1000;

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Returns when value is no longer `old`: spins, then sleeps.
void wait_for_change(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
  for (int i = 0; i < kSpins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    relax();
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

}  // namespace

int usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  // More CPUs than cpu_set_t can name.
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

int resolve_threads(int asked) {
  constexpr int kMaxThreads = 1024;
  base::check(asked >= 0 && asked <= kMaxThreads,
              "num_threads is {}, expected 0 (all that the process may use) to {}", asked,
              kMaxThreads);
  return asked > 0 ? asked : usable_cpus();
}

ThreadPool::ThreadPool(int num_threads) : num_threads_(num_threads) {
  workers_.reserve(static_cast<std::size_t>(num_threads - 1));
  try {
    for (int thread = 1; thread < num_threads; ++thread)
      workers_.emplace_back([this, thread] { work(thread); });
  } catch (const std::system_error& error) {
    const std::size_t started = workers_.size() + 1;
    join();
    base::fail(ErrorKind::out_of_capacity,
               "only {} of {} threads could be started ({}); ask for fewer (num_threads)", started,
               num_threads, error.code().message());
  }
}

ThreadPool::~ThreadPool() {
  join();
}

void ThreadPool::join() noexcept {
  stop_ = true;
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run_erased(Call call, void* body) {
  call_ = call;
  body_ = body;
  running_.store(static_cast<std::uint32_t>(num_threads_ - 1), std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  call(body, 0);
  for (std::uint32_t left = running_.load(std::memory_order_acquire); left != 0;
       left = running_.load(std::memory_order_acquire))
    wait_for_change(running_, left);
}

void ThreadPool::work(int thread) {
  std::uint32_t seen = 0;
  while (true) {
    wait_for_change(epoch_, seen);
    ++seen;  // the caller starts no run before this one has ended, so none is skipped
    if (stop_) return;
    call_(body_, thread);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
  }
}

void ThreadPool::barrier() noexcept {
  const std::uint32_t generation = generation_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 ==
      static_cast<std::uint32_t>(num_threads_)) {
    arrived_.store(0, std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_release);
    generation_.notify_all();
    return;
  }
  wait_for_change(generation_, generation);
}

}  // namespace trencadis::cpu
