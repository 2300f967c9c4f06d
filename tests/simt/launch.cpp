#include "simt/launch.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "simt/emulator.h"
#include "simt/threads.h"

namespace trencadis::simt {
namespace {

constexpr int kBarriers = 16;
constexpr std::size_t kMaxShared = 227 * 1024;
constexpr std::size_t kGuard = 1024;  // bytes on both sides of shared memory
constexpr char kGuardByte = 0x5a;

/// The asynchronous copies of one thread.
struct CopyQueue {
  struct Copy {
    char* to;
    const char* from;
    bool valid;
  };
  std::vector<Copy> copies;         // not yet done, oldest first
  std::vector<std::size_t> groups;  // the number of copies up to the end of each committed group

  void wait(int pending);
};

struct Warp {
  unsigned arrived = 0;  // lanes in the collective under way
  const char* operation = nullptr;
  void* operands[kWarpSize] = {};
  unsigned at_barrier = 0;  // lanes that wait, which is to say at this one
  int barrier = 0;
  int barrier_threads = 0;
};

struct Barrier {
  unsigned warps = 0;  // that are there with all their lanes
  int threads = 0;     // expected
};

class Machine {
 public:
  void launch(const LaunchConfig& config, const std::function<void()>& kernel);

  // What the running thread asks for; see emulator.h.
  Place place() const { return {threads_.current(), cta_, config_.threads, config_.ctas}; }
  void warp_collective(const char* operation, void* operands, void (*perform)(void* const*));
  void barrier(const char* operation, int id, int threads);
  void yield(const char* operation) { threads_.yield(operation); }
  char* shared() { return shared_; }
  std::size_t shared_offset(const char* operation, const void* address) const;
  CopyQueue& copies() { return copies_[static_cast<std::size_t>(threads_.current())]; }

  Statistics statistics;

 private:
  void allocate_shared();
  void run_cta(int cta, const std::function<void()>& body);
  void check_guards() const;
  Warp& warp() { return warps_[static_cast<std::size_t>(threads_.warp())]; }
  void complete(Barrier& meeting);

  LaunchConfig config_;
  Random random_{0};
  Threads threads_;
  int cta_ = 0;
  std::array<Warp, kMaxWarps> warps_;
  std::array<Barrier, kBarriers> barriers_;
  std::vector<CopyQueue> copies_;
  std::vector<char> shared_storage_;
  char* shared_ = nullptr;
};

thread_local std::unique_ptr<Machine> the_machine;
thread_local Machine* running = nullptr;

Machine& machine() {
  if (running == nullptr) throw std::runtime_error("a device instruction outside of a launch");
  return *running;
}

void Machine::launch(const LaunchConfig& config, const std::function<void()>& kernel) {
  config_ = config;
  statistics = {};
  copies_.resize(static_cast<std::size_t>(config.threads));
  allocate_shared();
  random_ = Random(config.seed);
  std::vector<int> order(static_cast<std::size_t>(config.ctas));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_() % i]);

  const std::function<void()> body = [&] {
    kernel();
    if (warp().arrived != 0) {
      fail(warp().operation, "a lane returns while others of its warp wait for it here");
    }
  };
  for (const int cta : order) run_cta(cta, body);
}

/// Aligned to 128 bytes and to no more, which is all that a kernel may count on.
void Machine::allocate_shared() {
  shared_storage_.resize(config_.shared_bytes + 2 * kGuard + 256);
  char* const first = shared_storage_.data() + kGuard;
  const auto past = (reinterpret_cast<std::uintptr_t>(first) + 128) % 256;
  shared_ = first + (256 - past) % 256;
}

void Machine::run_cta(int cta, const std::function<void()>& body) {
  cta_ = cta;
  warps_ = {};
  barriers_ = {};
  for (CopyQueue& queue : copies_) {
    queue.copies.clear();
    queue.groups.clear();
  }
  std::memset(shared_ - kGuard, kGuardByte, kGuard);
  std::memset(shared_, 0xff, config_.shared_bytes);
  std::memset(shared_ + config_.shared_bytes, kGuardByte, kGuard);
  threads_.run(cta, config_.threads, body, random_);
  check_guards();
}

void Machine::check_guards() const {
  const auto intact = [](const char* begin) {
    return std::all_of(begin, begin + kGuard, [](char byte) { return byte == kGuardByte; });
  };
  const char* side = nullptr;
  if (!intact(shared_ - kGuard)) side = "before";
  if (!intact(shared_ + config_.shared_bytes)) side = "past the end of";
  if (side == nullptr) return;
  throw std::runtime_error("CTA " + std::to_string(cta_) + " wrote " + side +
                           " its dynamic shared memory");
}

void Machine::warp_collective(const char* operation, void* operands,
                              void (*perform)(void* const*)) {
  if (threads_.returned() != 0) {
    fail(operation, std::to_string(std::popcount(threads_.returned())) + " lanes have returned");
  }
  Warp& group = warp();
  if (group.arrived == 0) group.operation = operation;
  if (std::strcmp(group.operation, operation) != 0) {
    fail(operation, std::to_string(std::popcount(group.arrived)) + " lanes of the warp are in " +
                        group.operation);
  }
  group.operands[threads_.lane()] = operands;
  group.arrived |= 1u << threads_.lane();
  if (group.arrived == ~0u) {
    group.arrived = 0;
    perform(group.operands);
    threads_.release(threads_.warp(), ~0u);
  }
  threads_.park(operation);
}

void Machine::barrier(const char* operation, int id, int threads) {
  if (threads < kWarpSize || threads > config_.threads || threads % kWarpSize != 0) {
    fail(operation, std::to_string(threads) + " threads are not whole warps of this CTA");
  }
  const auto unlike = [&](int other_id, int other_threads) {
    fail(operation, "barrier " + std::to_string(id) + " of " + std::to_string(threads) +
                        " threads, while others wait at barrier " + std::to_string(other_id) +
                        " of " + std::to_string(other_threads));
  };
  // Hardware counts warps, not threads: one is there when all its lanes are.
  Warp& mine = warp();
  if (mine.at_barrier == 0) {
    mine.barrier = id;
    mine.barrier_threads = threads;
  }
  if (mine.barrier != id || mine.barrier_threads != threads) {
    unlike(mine.barrier, mine.barrier_threads);
  }
  mine.at_barrier |= 1u << threads_.lane();
  if (mine.at_barrier == ~0u) {
    Barrier& meeting = barriers_[static_cast<std::size_t>(id)];
    if (meeting.warps == 0) meeting.threads = threads;
    if (meeting.threads != threads) unlike(id, meeting.threads);
    meeting.warps |= 1u << threads_.warp();
    if (std::popcount(meeting.warps) * kWarpSize == threads) complete(meeting);
  }
  threads_.park(operation);
}

void Machine::complete(Barrier& meeting) {
  for (int w = 0; w < kMaxWarps; ++w) {
    if ((meeting.warps >> w & 1u) == 0) continue;
    warps_[static_cast<std::size_t>(w)].at_barrier = 0;
    threads_.release(w, ~0u);
  }
  meeting = {};
  statistics.barriers += 1;
}

std::size_t Machine::shared_offset(const char* operation, const void* address) const {
  const auto offset =
      reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(shared_);
  if (offset > config_.shared_bytes || config_.shared_bytes - offset < 16) {
    fail(operation, "16 bytes at offset " + std::to_string(static_cast<std::intptr_t>(offset)) +
                        " are outside of the " + std::to_string(config_.shared_bytes) +
                        " bytes of shared memory");
  }
  check_aligned(operation, address);
  return offset;
}

void CopyQueue::wait(int pending) {
  const std::size_t kept = std::min(static_cast<std::size_t>(pending), groups.size());
  const std::size_t ended = groups.size() - kept;
  if (ended == 0) return;
  const std::size_t done = groups[ended - 1];
  for (std::size_t i = 0; i < done; ++i) {
    const auto [to, from, valid] = copies[i];
    if (valid) {
      std::memcpy(to, from, 16);
    } else {
      std::memset(to, 0, 16);
    }
  }
  copies.erase(copies.begin(), copies.begin() + static_cast<std::ptrdiff_t>(done));
  groups.erase(groups.begin(), groups.begin() + static_cast<std::ptrdiff_t>(ended));
  for (std::size_t& end : groups) end -= done;
}

void check(const LaunchConfig& config) {
  if (running != nullptr) throw std::runtime_error("a launch from within a kernel");
  if (config.ctas < 0) throw std::runtime_error("ctas is " + std::to_string(config.ctas));
  if (config.threads < kWarpSize || config.threads > kMaxThreads ||
      config.threads % kWarpSize != 0) {
    throw std::runtime_error("threads is " + std::to_string(config.threads) +
                             ": expected whole warps, at most 1024 threads");
  }
  if (config.shared_bytes > kMaxShared) {
    throw std::runtime_error("shared_bytes is " + std::to_string(config.shared_bytes) +
                             ": at most 227 KiB");
  }
}

}  // namespace

void launch(const LaunchConfig& config, const std::function<void()>& kernel) {
  check(config);
  if (!the_machine) the_machine = std::make_unique<Machine>();
  struct Running {
    Running() { running = the_machine.get(); }
    ~Running() { running = nullptr; }
  } while_running;
  the_machine->launch(config, kernel);
}

const Statistics& statistics() {
  if (!the_machine) the_machine = std::make_unique<Machine>();
  return the_machine->statistics;
}

Place place() {
  return machine().place();
}

void fail(const char* operation, const std::string& what) {
  const Place at = place();
  throw std::runtime_error(std::string(operation) + ": CTA " + std::to_string(at.cta) + ", warp " +
                           std::to_string(at.thread / kWarpSize) + ", lane " +
                           std::to_string(at.thread % kWarpSize) + ": " + what);
}

void warp_collective(const char* operation, void* operands, void (*perform)(void* const* lanes)) {
  machine().warp_collective(operation, operands, perform);
}

void barrier(const char* operation, int id, int threads) {
  machine().barrier(operation, id, threads);
}

void yield(const char* operation) {
  machine().yield(operation);
}

char* dynamic_shared() {
  return machine().shared();
}

std::size_t shared_offset(const char* operation, const void* address) {
  return machine().shared_offset(operation, address);
}

void check_aligned(const char* operation, const void* address) {
  if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0) {
    fail(operation, "the address is not a multiple of 16 bytes");
  }
}

void copy_async_16(void* shared, const void* global, bool valid) {
  shared_offset("copy_async_16", shared);
  check_aligned("copy_async_16", global);
  std::memset(shared, 0xff, 16);
  machine().copies().copies.push_back(
      {static_cast<char*>(shared), static_cast<const char*>(global), valid});
  counters().copies += 1;
}

void commit_copies() {
  CopyQueue& queue = machine().copies();
  queue.groups.push_back(queue.copies.size());
}

void wait_copies(int pending) {
  machine().copies().wait(pending);
}

Statistics& counters() {
  return machine().statistics;
}

}  // namespace trencadis::simt
