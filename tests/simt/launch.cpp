#include "simt/launch.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "simt/emulator.h"
#include "simt/products.h"
#include "simt/threads.h"

namespace trencadis::simt {
namespace {

constexpr int kBarriers = 16;
constexpr int kWarpsOfGroup = 4;
constexpr int kMaxArrivals = (1 << 20) - 1;
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
  struct Arrival {
    std::size_t copies;  // that it comes after
    std::size_t barrier;
  };
  std::deque<Arrival> arrivals;  // that are to come, oldest first

  void clear();
};

/// The latest write to 16 bytes of shared memory.
struct Write {
  std::uint32_t time = 0;  // 0: none that the emulation has seen
  std::uint32_t thread = 0;
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
  unsigned warps = 0;    // that are there with all their lanes
  unsigned arrived = 0;  // warps that were there and went on
  int threads = 0;       // expected
};

/// A barrier in shared memory, which holds its mark and its number.
struct PhaseBarrier {
  static constexpr std::uint32_t kMark = 0x6d626172;
  std::size_t offset;
  int arrivals;                                  // of a phase
  int arrived = 0;                               // in this one
  int promised = 0;                              // those, and with the copies that are under way
  std::uint64_t phase = 0;                       // that is not complete
  std::array<unsigned, kMaxWarps> waiting = {};  // lanes, for this phase
};

struct Warpgroup {
  std::deque<WarpgroupCall> calls;  // that some of the warps have not made yet, oldest first
  std::uint64_t ended = 0;          // calls before those
  std::array<std::uint64_t, kWarpsOfGroup> made = {};  // calls, by warp
};

class Machine {
 public:
  void launch(const LaunchConfig& config, const std::function<void()>& kernel);

  // What the running thread asks for; see emulator.h.
  Place place() const { return {threads_.current(), cta_, config_.threads, config_.ctas}; }
  void warp_collective(const char* operation, void* operands, void (*perform)(void* const*));
  void barrier(const char* operation, int id, int threads);
  void arrive_at_barrier(const char* operation, int id, int threads);
  void yield(const char* operation);
  char* shared() { return shared_; }
  std::size_t shared_offset(const char* operation, const void* address, std::size_t bytes) const;
  void stored_shared(const void* address) { mark(address, threads_.current()); }
  void show_to_products();
  const char* shown_shared(const char* operation, std::size_t offset) const;
  CopyQueue& copies() { return copies_[static_cast<std::size_t>(threads_.current())]; }
  void copy_async(void* shared, const void* global, bool valid);
  void wait_copies(int pending);
  void make_barrier(void* address, int arrivals);
  void arrive(const void* address);
  void arrive_with_copies(const void* address);
  void wait_phase(const void* address, unsigned parity);
  void warpgroup(const WarpgroupCall& call);

  Statistics statistics;

 private:
  void allocate_shared();
  void run_cta(int cta, const std::function<void()>& body);
  void check_guards() const;
  void check_warpgroups() const;
  Warp& warp() { return warps_[static_cast<std::size_t>(threads_.warp())]; }
  void park(const char* operation);
  bool meet_in_warp(const char* operation, void* operands);
  void check_barrier(const char* operation, int id, int threads) const;
  Barrier& come_to_barrier(const char* operation, int id, int threads);
  void complete_if_all_came(Barrier& meeting);
  bool chance(std::uint64_t rate) { return rate != 0 && (random_() & 0xffff) < rate; }
  void mark(const void* shared, int thread);
  void land(int thread, std::size_t count);
  void land_one();
  std::size_t phase_barrier(const char* operation, const void* address) const;
  void promise_arrival(const char* operation, std::size_t index);
  void count_arrival(std::size_t index);
  void agree(const WarpgroupCall* const* lanes);

  LaunchConfig config_;
  Random random_{0};
  Threads threads_;
  int cta_ = 0;
  std::array<Warp, kMaxWarps> warps_;
  std::array<Barrier, kBarriers> barriers_;
  std::vector<CopyQueue> copies_;
  std::vector<PhaseBarrier> phase_barriers_;
  std::vector<int> landing_;  // threads whose copies a barrier waits for, once an arrival
  std::array<Warpgroup, kMaxWarps / kWarpsOfGroup> warpgroups_;
  std::vector<Products> products_;                           // by warp
  std::vector<Write> writes_;                                // by 16 bytes of shared memory
  std::uint32_t time_ = 1;                                   // goes on with each show_to_products
  std::array<std::uint32_t, kMaxThreads> shown_ = {};        // the time of a thread's latest
  std::array<std::uint32_t, kMaxWarps> shown_to_warp_ = {};  // the oldest of its lanes'
  // Chances out of 2^16, drawn by CTA:
  std::uint64_t land_rate_ = 0;     // that copies land before somebody waits for them
  std::uint64_t perform_rate_ = 0;  // that products are performed where they are issued
  bool warpgroups_meet_ = false;    // the warps of a warpgroup wait for each other
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
  products_.resize(static_cast<std::size_t>(config.threads / kWarpSize));
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
  for (CopyQueue& queue : copies_) queue.clear();
  phase_barriers_.clear();
  landing_.clear();
  for (Warpgroup& group : warpgroups_) {
    if (group.made != decltype(group.made){}) group = {};
  }
  for (Products& products : products_) products.clear();
  writes_.assign(config_.shared_bytes / 16, {});
  time_ = 1;
  shown_ = {};
  shown_to_warp_ = {};
  const std::uint64_t random = random_();
  constexpr std::uint64_t kRates[] = {0, 1 << 10, 1 << 15, 1 << 16};
  land_rate_ = kRates[random % 4];
  perform_rate_ = kRates[random / 4 % 4];
  warpgroups_meet_ = (random / 16 & 1) != 0;
  std::memset(shared_ - kGuard, kGuardByte, kGuard);
  std::memset(shared_, 0xff, config_.shared_bytes);
  std::memset(shared_ + config_.shared_bytes, kGuardByte, kGuard);
  const std::function<void()> idle = [&] {
    while (!landing_.empty() && !threads_.any_ready()) land_one();
  };
  threads_.run(cta, config_.threads, body, idle, random_);
  check_guards();
  check_warpgroups();
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

void Machine::check_warpgroups() const {
  const auto wrong = [&](std::size_t warp, const std::string& what) {
    throw std::runtime_error("CTA " + std::to_string(cta_) + ", warp " + std::to_string(warp) +
                             ": it returned " + what);
  };
  for (std::size_t w = 0; w < products_.size(); ++w) {
    const Warpgroup& group = warpgroups_[w / kWarpsOfGroup];
    const std::size_t next = group.made[w % kWarpsOfGroup] - group.ended;
    if (next < group.calls.size()) {
      wrong(w, std::string("without ") + group.calls[next].operation +
                   ", where others of its warpgroup have been");
    }
    if (products_[w].under_way()) wrong(w, "with products that it has not waited for");
  }
}

/// A chance for copies to land.
void Machine::park(const char* operation) {
  if (!landing_.empty() && chance(land_rate_)) land_one();
  threads_.park(operation);
}

void Machine::yield(const char* operation) {
  // Who yields may wait for what copies bring about, and somebody can always run.
  if (!landing_.empty() && chance(std::max(land_rate_, std::uint64_t{1} << 10))) land_one();
  threads_.yield(operation);
}

/// Whether all lanes are here now. They park after it, the last one too.
bool Machine::meet_in_warp(const char* operation, void* operands) {
  if (threads_.returned() != 0) {
    fail(operation, std::to_string(std::popcount(threads_.returned())) + " lanes have returned");
  }
  Warp& group = warp();
  if (group.arrived == 0) group.operation = operation;
  if (group.operation != operation && std::strcmp(group.operation, operation) != 0) {
    fail(operation, std::to_string(std::popcount(group.arrived)) + " lanes of the warp are in " +
                        group.operation);
  }
  group.operands[threads_.lane()] = operands;
  group.arrived |= 1u << threads_.lane();
  if (group.arrived != ~0u) return false;
  group.arrived = 0;
  return true;
}

void Machine::warp_collective(const char* operation, void* operands,
                              void (*perform)(void* const*)) {
  if (meet_in_warp(operation, operands)) {
    perform(warp().operands);
    threads_.release(threads_.warp(), ~0u);
  }
  park(operation);
}

void Machine::check_barrier(const char* operation, int id, int threads) const {
  if (threads < kWarpSize || threads > config_.threads || threads % kWarpSize != 0) {
    fail(operation, "barrier " + std::to_string(id) + ": " + std::to_string(threads) +
                        " threads are not whole warps of this CTA");
  }
}

[[noreturn]] void unlike_barriers(const char* operation, int id, int threads, int other_id,
                                  int other_threads) {
  fail(operation, "barrier " + std::to_string(id) + " of " + std::to_string(threads) +
                      " threads, while others wait at barrier " + std::to_string(other_id) +
                      " of " + std::to_string(other_threads));
}

/// For a warp that is there with all its lanes.
Barrier& Machine::come_to_barrier(const char* operation, int id, int threads) {
  Barrier& meeting = barriers_[static_cast<std::size_t>(id)];
  if ((meeting.warps | meeting.arrived) == 0) meeting.threads = threads;
  if (meeting.threads != threads) unlike_barriers(operation, id, threads, id, meeting.threads);
  if ((meeting.arrived >> threads_.warp() & 1u) != 0) {
    fail(operation, "the warp has arrived at barrier " + std::to_string(id) +
                        " before, and others have not come since");
  }
  return meeting;
}

void Machine::barrier(const char* operation, int id, int threads) {
  check_barrier(operation, id, threads);
  // Hardware counts warps, not threads: one is there when all its lanes are.
  Warp& mine = warp();
  if (mine.at_barrier == 0) {
    mine.barrier = id;
    mine.barrier_threads = threads;
  }
  if (mine.barrier != id || mine.barrier_threads != threads) {
    unlike_barriers(operation, id, threads, mine.barrier, mine.barrier_threads);
  }
  mine.at_barrier |= 1u << threads_.lane();
  if (mine.at_barrier == ~0u) {
    Barrier& meeting = come_to_barrier(operation, id, threads);
    meeting.warps |= 1u << threads_.warp();
    complete_if_all_came(meeting);
  }
  park(operation);
}

void Machine::arrive_at_barrier(const char* operation, int id, int threads) {
  check_barrier(operation, id, threads);
  struct Arrival {
    int id, threads;
  } mine{id, threads};
  if (meet_in_warp(operation, &mine)) {
    for (const void* operands : warp().operands) {
      const auto& lane = *static_cast<const Arrival*>(operands);
      if (lane.id != id || lane.threads != threads) {
        unlike_barriers(operation, id, threads, lane.id, lane.threads);
      }
    }
    Barrier& meeting = come_to_barrier(operation, id, threads);
    meeting.arrived |= 1u << threads_.warp();
    complete_if_all_came(meeting);
    threads_.release(threads_.warp(), ~0u);
  }
  park(operation);
}

void Machine::complete_if_all_came(Barrier& meeting) {
  if (std::popcount(meeting.warps | meeting.arrived) * kWarpSize != meeting.threads) return;
  for (int w = 0; w < kMaxWarps; ++w) {
    if ((meeting.warps >> w & 1u) == 0) continue;
    warps_[static_cast<std::size_t>(w)].at_barrier = 0;
    threads_.release(w, ~0u);
  }
  meeting = {};
  statistics.barriers += 1;
}

void Machine::make_barrier(void* address, int arrivals) {
  constexpr const char* kOperation = "make_barrier";
  const std::size_t offset = shared_offset(kOperation, address, 8);
  if (arrivals < 1 || arrivals > kMaxArrivals) {
    fail(kOperation, std::to_string(arrivals) + " arrivals are not 1 .. 2^20 - 1");
  }
  for (const PhaseBarrier& other : phase_barriers_) {
    if (other.offset == offset) fail(kOperation, "it is made for the second time");
  }
  const std::uint32_t words[2] = {PhaseBarrier::kMark,
                                  static_cast<std::uint32_t>(phase_barriers_.size())};
  std::memcpy(address, words, sizeof words);
  phase_barriers_.push_back({.offset = offset, .arrivals = arrivals});
}

/// Its number.
std::size_t Machine::phase_barrier(const char* operation, const void* address) const {
  const std::size_t offset = shared_offset(operation, address, 8);
  std::uint32_t words[2];
  std::memcpy(words, address, sizeof words);
  const std::size_t index = words[1];
  if (words[0] != PhaseBarrier::kMark || index >= phase_barriers_.size() ||
      phase_barriers_[index].offset != offset) {
    fail(operation, "at offset " + std::to_string(offset) +
                        " no barrier was made, or something was written over it");
  }
  return index;
}

/// An arrival belongs to the phase in which the thread makes it, also where its copies are late.
void Machine::promise_arrival(const char* operation, std::size_t index) {
  PhaseBarrier& barrier = phase_barriers_[index];
  if (barrier.promised == barrier.arrivals) {
    fail(operation, "more than the " + std::to_string(barrier.arrivals) +
                        " arrivals of a phase at the barrier at offset " +
                        std::to_string(barrier.offset));
  }
  barrier.promised += 1;
}

void Machine::count_arrival(std::size_t index) {
  PhaseBarrier& barrier = phase_barriers_[index];
  barrier.arrived += 1;
  if (barrier.arrived < barrier.arrivals) return;
  barrier.arrived = barrier.promised = 0;
  barrier.phase += 1;
  for (int w = 0; w < kMaxWarps; ++w) {
    unsigned& lanes = barrier.waiting[static_cast<std::size_t>(w)];
    if (lanes != 0) threads_.release(w, lanes);
    lanes = 0;
  }
}

void Machine::arrive(const void* address) {
  const std::size_t index = phase_barrier("arrive", address);
  promise_arrival("arrive", index);
  count_arrival(index);
  // Who has been told may be faster than who tells.
  if (chance(1 << 14)) yield("arrive");
}

void Machine::arrive_with_copies(const void* address) {
  const std::size_t index = phase_barrier("arrive_with_copies", address);
  promise_arrival("arrive_with_copies", index);
  CopyQueue& queue = copies();
  queue.arrivals.push_back({queue.copies.size(), index});
  landing_.push_back(threads_.current());
}

/// What the oldest arrival of a random thread comes after, and it.
void Machine::land_one() {
  std::swap(landing_[random_() % landing_.size()], landing_.back());
  const int thread = landing_.back();
  CopyQueue& queue = copies_[static_cast<std::size_t>(thread)];
  landing_.pop_back();
  const CopyQueue::Arrival arrival = queue.arrivals.front();
  queue.arrivals.pop_front();
  land(thread, arrival.copies);
  const std::size_t offset = phase_barriers_[arrival.barrier].offset;
  count_arrival(phase_barrier("arrive_with_copies", shared_ + offset));
}

void Machine::wait_phase(const void* address, unsigned parity) {
  constexpr const char* kOperation = "wait_phase";
  const std::size_t index = phase_barrier(kOperation, address);
  if (parity > 1) fail(kOperation, "parities are 0 and 1");
  const std::uint64_t phase = phase_barriers_[index].phase;
  if (phase % 2 != parity) return;
  phase_barriers_[index].waiting[static_cast<std::size_t>(threads_.warp())] |= 1u
                                                                               << threads_.lane();
  park(kOperation);
  if (phase_barriers_[index].phase != phase + 1) {
    fail(kOperation,
         "the phase after the one that the thread waits for is complete before it has seen that");
  }
}

void Machine::warpgroup(const WarpgroupCall& call) {
  const int first = threads_.warp() / kWarpsOfGroup * kWarpsOfGroup;
  if ((first + kWarpsOfGroup) * kWarpSize > config_.threads) {
    fail(call.operation, "the warp is not of four that begin at a multiple of four");
  }
  WarpgroupCall mine = call;
  if (!meet_in_warp(call.operation, &mine)) return park(call.operation);

  const WarpgroupCall* lanes[kWarpSize];
  for (int l = 0; l < kWarpSize; ++l) {
    lanes[l] = static_cast<const WarpgroupCall*>(warp().operands[l]);
  }
  agree(lanes);
  Products& products = products_[static_cast<std::size_t>(threads_.warp())];
  switch (call.kind) {
    case WarpgroupCall::Kind::begin:
      products.begin();
      break;
    case WarpgroupCall::Kind::commit:
      products.commit();
      break;
    case WarpgroupCall::Kind::wait:
      products.wait(call.number);
      break;
    case WarpgroupCall::Kind::multiply_rows:
    case WarpgroupCall::Kind::multiply_columns:
      products.issue(lanes);
      if (chance(perform_rate_)) products.perform();
      break;
    case WarpgroupCall::Kind::registers:
      break;
  }
  const Warpgroup& group = warpgroups_[static_cast<std::size_t>(first / kWarpsOfGroup)];
  if (!warpgroups_meet_) {
    threads_.release(threads_.warp(), ~0u);
  } else if (group.calls.empty()) {
    for (int w = 0; w < kWarpsOfGroup; ++w) threads_.release(first + w, ~0u);
  }
  park(call.operation);
}

/// That all lanes and all warps of the warpgroup make the same calls in the same order.
void Machine::agree(const WarpgroupCall* const* lanes) {
  const WarpgroupCall& call = *lanes[0];
  const auto is_same = [&](const WarpgroupCall& other) {
    return std::strcmp(other.operation, call.operation) == 0 && other.number == call.number &&
           other.tiles == call.tiles && other.a == call.a && other.b == call.b;
  };
  if (!std::all_of(lanes, lanes + kWarpSize, [&](const auto* lane) { return is_same(*lane); })) {
    fail(call.operation, "the lanes of the warp name different matrices or numbers");
  }
  const auto warp = static_cast<std::size_t>(threads_.warp());
  Warpgroup& group = warpgroups_[warp / kWarpsOfGroup];
  std::uint64_t& made = group.made[warp % kWarpsOfGroup];
  const std::size_t next = made - group.ended;
  if (next == group.calls.size()) {
    group.calls.push_back(call);
  } else if (!is_same(group.calls[next])) {
    fail(call.operation, std::string("others of the warpgroup have been in ") +
                             group.calls[next].operation +
                             " here, or with other matrices or numbers");
  }
  made += 1;
  if (*std::min_element(group.made.begin(), group.made.end()) > group.ended) {
    group.calls.pop_front();
    group.ended += 1;
  }
}

std::size_t Machine::shared_offset(const char* operation, const void* address,
                                   std::size_t bytes) const {
  const auto offset =
      reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(shared_);
  if (offset > config_.shared_bytes || config_.shared_bytes - offset < bytes) {
    fail(operation, std::to_string(bytes) + " bytes at offset " +
                        std::to_string(static_cast<std::intptr_t>(offset)) +
                        " are outside of the " + std::to_string(config_.shared_bytes) +
                        " bytes of shared memory");
  }
  check_aligned(operation, address, bytes);
  return offset;
}

void CopyQueue::clear() {
  copies.clear();
  groups.clear();
  arrivals.clear();
}

void Machine::mark(const void* shared, int thread) {
  const auto offset =
      reinterpret_cast<std::uintptr_t>(shared) - reinterpret_cast<std::uintptr_t>(shared_);
  if (offset / 16 < writes_.size()) {
    writes_[offset / 16] = {time_, static_cast<std::uint32_t>(thread)};
  }
}

void Machine::show_to_products() {
  time_ += 1;
  shown_[static_cast<std::size_t>(threads_.current())] = time_;
  const auto lanes = shown_.begin() + threads_.warp() * kWarpSize;
  shown_to_warp_[static_cast<std::size_t>(threads_.warp())] =
      *std::min_element(lanes, lanes + kWarpSize);
}

/// It is there for products if who wrote it has shown it since, or all who read it have.
const char* Machine::shown_shared(const char* operation, std::size_t offset) const {
  const char* const address = shared_ + offset;
  shared_offset(operation, address, 16);
  const Write& write = writes_[offset / 16];
  if (write.time >= shown_to_warp_[static_cast<std::size_t>(threads_.warp())] &&
      write.time >= shown_[write.thread] && write.time != 0) {
    fail(operation, "it reads offset " + std::to_string(offset) + ", which thread " +
                        std::to_string(write.thread) +
                        " has written since the latest show_to_products");
  }
  return address;
}

void Machine::copy_async(void* shared, const void* global, bool valid) {
  std::memset(shared, 0xff, 16);
  mark(shared, threads_.current());
  copies().copies.push_back({static_cast<char*>(shared), static_cast<const char*>(global), valid});
  statistics.copies += 1;
}

void Machine::wait_copies(int pending) {
  std::vector<std::size_t>& groups = copies().groups;
  const std::size_t kept = std::min(static_cast<std::size_t>(pending), groups.size());
  const std::size_t ended = groups.size() - kept;
  if (ended == 0) return;
  land(threads_.current(), groups[ended - 1]);
  groups.erase(groups.begin(), groups.begin() + static_cast<std::ptrdiff_t>(ended));
}

/// The oldest copies of a thread.
void Machine::land(int thread, std::size_t count) {
  CopyQueue& queue = copies_[static_cast<std::size_t>(thread)];
  for (std::size_t i = 0; i < count; ++i) {
    const auto [to, from, valid] = queue.copies[i];
    if (valid) {
      std::memcpy(to, from, 16);
    } else {
      std::memset(to, 0, 16);
    }
    mark(to, thread);
  }
  queue.copies.erase(queue.copies.begin(),
                     queue.copies.begin() + static_cast<std::ptrdiff_t>(count));
  for (std::size_t& end : queue.groups) end -= std::min(end, count);
  for (CopyQueue::Arrival& each : queue.arrivals) each.copies -= std::min(each.copies, count);
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

void arrive_at_barrier(const char* operation, int id, int threads) {
  machine().arrive_at_barrier(operation, id, threads);
}

void yield(const char* operation) {
  machine().yield(operation);
}

char* dynamic_shared() {
  return machine().shared();
}

std::size_t shared_offset(const char* operation, const void* address, std::size_t bytes) {
  return machine().shared_offset(operation, address, bytes);
}

void check_aligned(const char* operation, const void* address, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(address) % bytes != 0) {
    fail(operation, "the address is not a multiple of " + std::to_string(bytes) + " bytes");
  }
}

void stored_shared(const void* address) {
  machine().stored_shared(address);
}

void show_to_products() {
  machine().show_to_products();
}

const char* shown_shared(const char* operation, std::size_t offset) {
  return machine().shown_shared(operation, offset);
}

void copy_async_16(const char* operation, void* shared, const void* global, bool valid) {
  shared_offset(operation, shared);
  check_aligned(operation, global);
  machine().copy_async(shared, global, valid);
}

void commit_copies() {
  CopyQueue& queue = machine().copies();
  queue.groups.push_back(queue.copies.size());
}

void wait_copies(int pending) {
  machine().wait_copies(pending);
}

void make_barrier(void* barrier, int arrivals) {
  machine().make_barrier(barrier, arrivals);
}

void arrive(void* barrier) {
  machine().arrive(barrier);
}

void arrive_with_copies(void* barrier) {
  machine().arrive_with_copies(barrier);
}

void wait_phase(void* barrier, unsigned parity) {
  machine().wait_phase(barrier, parity);
}

void warpgroup(const WarpgroupCall& call) {
  machine().warpgroup(call);
}

Statistics& counters() {
  return machine().statistics;
}

}  // namespace trencadis::simt
