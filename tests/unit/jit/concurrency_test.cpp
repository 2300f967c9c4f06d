// Several processes, and several threads, that want the same kernel at once.

#include <sys/file.h>

#include <csignal>
#include <thread>

#include "fixture.h"
#include "support/scale.h"

namespace trencadis::jit {
namespace {

constexpr int kProcesses = 8;

class Concurrency : public ::testing::Test {
 protected:
  void SetUp() override {
    if (find_program("c++").empty()) GTEST_SKIP() << "no C++ compiler here";
    write_counting_compiler(directory_ / "c++", log_);
  }

  /// In a process of its own: loads a kernel with the counting compiler and calls it.
  pid_t start_user(int answer) {
    return start_process([this, answer] {
      const ScopedVariable chosen("TRENCADIS_CXX", (directory_ / "c++").string());
      HostCompiler compiler;
      KernelCache cache;
      const LoadedKernel kernel = cache.get_or_compile(answer_kernel(answer), compiler, disk_);
      return call_answer(kernel) == answer ? 0 : 1;
    });
  }

  void expect_success(const std::vector<pid_t>& children) {
    for (const pid_t child : children) EXPECT_EQ(wait_for(child), 0);
  }

  TemporaryDirectory directory_;
  fs::path log_ = directory_ / "compilations";
  DiskCache disk_{(directory_ / "cache").string()};
};

TEST_F(Concurrency, J1_EightProcessesCompileOnce) {
  const int rounds = trencadis::testing::scaled(20);
  for (int round = 1; round <= rounds; ++round) {
    std::vector<pid_t> children;
    for (int i = 0; i < kProcesses; ++i) children.push_back(start_user(round));
    expect_success(children);
    ASSERT_EQ(count_lines(log_), round) << "one compilation a kernel";
  }
  for (const EntryInfo& info : disk_.verify()) EXPECT_EQ(info.problem, "");
  EXPECT_TRUE(fs::is_empty(fs::path(disk_.directory()) / "locks"));
  EXPECT_TRUE(fs::is_empty(fs::path(disk_.directory()) / "work"));
}

TEST_F(Concurrency, J1_DifferentKernelsDoNotWaitForEachOther) {
  // Every compilation waits until all eight have begun.
  write_counting_compiler(directory_ / "c++", log_,
                          "while [ $(wc -l < " + log_.string() + ") -lt 8 ]; do sleep 0.02; done");
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) children.push_back(start_user(i));
  expect_success(children);
  EXPECT_EQ(disk_.list().size(), static_cast<std::size_t>(kProcesses));
}

TEST_F(Concurrency, J1_AProcessKilledWhileItCompilesHarmsNobody) {
  // The first compilation hangs; its process is killed while others wait for the lock.
  write_counting_compiler(directory_ / "c++", log_,
                          "[ $(wc -l < " + log_.string() + ") -gt 1 ] || exec sleep 20");
  const pid_t victim = start_user(1);
  while (count_lines(log_) == 0) usleep(1000);
  std::vector<pid_t> children;
  for (int i = 1; i < kProcesses; ++i) children.push_back(start_user(1));
  usleep(100'000);
  EXPECT_EQ(count_lines(log_), 1) << "the others wait";
  kill(victim, SIGKILL);
  EXPECT_EQ(wait_for(victim), -SIGKILL);
  expect_success(children);
  EXPECT_EQ(count_lines(log_), 2) << "one compilation besides the killed one";
  EXPECT_TRUE(fs::is_empty(fs::path(disk_.directory()) / "work")) << "what it left is swept";
}

TEST_F(Concurrency, J1_KillsAtAnyMomentLeaveNothingHalfWritten) {
  const int rounds = trencadis::testing::scaled(25);
  for (int round = 0; round < rounds; ++round) {
    const pid_t victim = start_user(1000 + round);
    usleep(static_cast<useconds_t>(1000 + 400'000LL * round / rounds));
    kill(victim, SIGKILL);
    wait_for(victim);
    for (const EntryInfo& info : disk_.verify()) ASSERT_EQ(info.problem, "");
    ASSERT_EQ(wait_for(start_user(1000 + round)), 0);
  }
}

TEST_F(Concurrency, J1_ClearingMeanwhileIsHarmless) {
  const pid_t clearer = start_process([this] {
    for (;;) {
      disk_.clear();
      usleep(500);
    }
    return 0;
  });
  const int rounds = trencadis::testing::scaled(10);
  for (int round = 0; round < rounds; ++round) {
    std::vector<pid_t> children;
    for (int i = 0; i < 4; ++i) children.push_back(start_user(round % 2));
    expect_success(children);
  }
  kill(clearer, SIGKILL);
  wait_for(clearer);
}

TEST_F(Concurrency, J1_ThreadsOfOneProcessCompileOnce) {
  const ScopedVariable chosen("TRENCADIS_CXX", (directory_ / "c++").string());
  HostCompiler compiler;
  KernelCache cache;
  std::vector<std::thread> threads;
  std::vector<LoadedKernel> kernels(16);
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    threads.emplace_back([&, i] {
      kernels[i] = cache.get_or_compile(answer_kernel(static_cast<int>(i % 2)), compiler, disk_);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    EXPECT_EQ(kernels[i].module, kernels[i % 2].module);
    EXPECT_EQ(call_answer(kernels[i]), static_cast<int>(i % 2));
  }
  EXPECT_EQ(count_lines(log_), 2);
}

}  // namespace
}  // namespace trencadis::jit
