// What the memory of this machine can deliver: the roofline that decode is measured against.
#include <sys/mman.h>
#include <trencadis/runtime.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include "backends/cpu/thread_pool.h"
#include "base/check.h"

namespace trencadis {
namespace {

/// Far more than any cache holds.
constexpr std::size_t kBytes = std::size_t{1} << 29;
constexpr int kPasses = 5;

struct Unmap {
  void operator()(std::uint64_t* p) const { munmap(p, kBytes); }
};

std::unique_ptr<std::uint64_t[], Unmap> map_memory() {
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    base::fail(ErrorKind::out_of_capacity, "the bandwidth probe could not map {} bytes", kBytes);
  madvise(memory, kBytes, MADV_HUGEPAGE);  // page walks are not what is measured
  return std::unique_ptr<std::uint64_t[], Unmap>(static_cast<std::uint64_t*>(memory));
}

std::uint64_t sum(const std::uint64_t* data, std::size_t words) {
  std::array<std::uint64_t, 8> sums{};  // a cache line at a time, in independent chains
  for (std::size_t i = 0; i < words; i += sums.size())
    for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += data[i + j];
  std::uint64_t total = 0;
  for (const std::uint64_t s : sums) total += s;
  return total;
}

}  // namespace

double measure_read_bandwidth(int num_threads) {
  cpu::ThreadPool pool(cpu::resolve_threads(num_threads));
  const auto memory = map_memory();
  const std::size_t words =
      kBytes / sizeof(std::uint64_t) / static_cast<std::size_t>(pool.size()) / 8 * 8;
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(pool.size()));
  const auto share = [&](int thread) {
    return memory.get() + static_cast<std::size_t>(thread) * words;
  };
  // Each thread touches its own share first, so that it lies on its own node.
  pool.run([&](int thread) { std::memset(share(thread), 1, words * sizeof(std::uint64_t)); });

  double best = 0.0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    pool.run(
        [&](int thread) { sums[static_cast<std::size_t>(thread)] += sum(share(thread), words); });
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    const auto bytes = static_cast<double>(words * sizeof(std::uint64_t) * sums.size());
    best = std::max(best, bytes / seconds.count() / 1e9);
  }
  // Every byte is 1, so the sums are known; comparing them keeps the loop from being optimised
  // away.
  for (const std::uint64_t total : sums)
    base::ensure(total == kPasses * words * std::uint64_t{0x0101010101010101},
                 "the bandwidth probe read {:#x}, which is not what it wrote", total);
  return best;
}

}  // namespace trencadis
