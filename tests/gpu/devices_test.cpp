// Two devices in one process, each with an Attention, tensors and a stream of its own: in turns, in
// threads, in graphs. Where there is one device all of it is skipped.
#include <gtest/gtest.h>
#include <trencadis/kv_cache.h>
#include <trencadis/runtime.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "gpu/step_tensors.h"
#include "support/backend_under_test.h"
#include "support/compare.h"

namespace trencadis::testing {
namespace {

constexpr int kDevices = 2;
constexpr std::size_t kSteps = 20;

/// In words that a run of all tests shows, and with the status by which ctest counts it.
class TwoDevicesAreThere : public ::testing::Environment {
 public:
  void SetUp() override {
    if (backend_under_test() != BackendKind::cuda) return;
    const CudaDriverInfo driver = cuda_driver();
    if (driver.devices.size() >= kDevices) return;
    std::printf("skipped: these tests take %d CUDA devices, here are %zu (%s)\n", kDevices,
                driver.devices.size(),
                driver.available ? driver.devices[0].name.c_str() : driver.reason.c_str());
    std::fflush(stdout);
    std::_Exit(kSkipped);
  }
};

[[maybe_unused]] const ::testing::Environment* const registered =
    ::testing::AddGlobalTestEnvironment(new TwoDevicesAreThere);

Problem step_of(std::vector<Lengths> lengths, int device) {
  Limits limits;
  limits.max_batch = 8;
  limits.max_qo_tokens = 150;
  limits.max_pages = 400;
  limits.max_kv_tokens = 5000;
  ProblemBuilder builder;
  builder.heads(8, 2).dims(64).dtype(DType::bf16).page_size(16).causal().limits(limits);
  Problem problem = builder.lengths(std::move(lengths)).build();
  problem.config.device_index = device_under_test(device).index;
  return problem;
}

/// What one device is given, step after step, each with tensors of its own.
class Worker {
 public:
  explicit Worker(int device) : device_(device_under_test(device)), stream_(device_) {
    for (int i = 0; i < 4; ++i)
      problems_.push_back(step_of({{1, 20 + 900 * i}, {1 + 9 * i + device, 90}, {1, 0}}, device));
    attention_.emplace(problems_[0].spec, problems_[0].config);
    for (std::size_t i = 0; i < kSteps; ++i)
      tensors_.push_back(std::make_unique<StepTensors>(problem(i), device_));
  }

  const Problem& problem(std::size_t step) const { return problems_[step % problems_.size()]; }
  Attention& attention() { return *attention_; }
  DeviceStream& stream() { return stream_; }
  StepTensors& tensors(std::size_t step) { return *tensors_[step]; }

  void plan(std::size_t step) { attention_->plan(problem(step).plan_input(), stream_.handle()); }
  void run(std::size_t step) {
    attention_->run(tensors(step).args(problem(step), stream_.handle()));
  }
  void queue(std::size_t step) {
    plan(step);
    run(step);
  }
  void queue_all() {
    for (std::size_t i = 0; i < kSteps; ++i) queue(i);
  }
  void expect_right() {
    stream_.synchronize();
    for (std::size_t i = 0; i < kSteps; ++i)
      EXPECT_TRUE(close_to_reference(tensors(i).output(problem(i)), problem(i)))
          << "step " << i << " on device " << device_.index;
  }

 private:
  Device device_;
  DeviceStream stream_;
  std::vector<Problem> problems_;
  std::optional<Attention> attention_;
  std::vector<std::unique_ptr<StepTensors>> tensors_;
};

TEST(GpuDevices, StepsTakeTurns) {
  Worker first(0), second(1);
  for (std::size_t i = 0; i < kSteps; ++i) {
    first.plan(i);
    second.plan(i);
    first.run(i);
    second.run(i);
  }
  first.expect_right();
  second.expect_right();
}

TEST(GpuDevices, AThreadEach) {
  Worker first(0), second(1);
  std::thread other([&] { second.queue_all(); });
  first.queue_all();
  other.join();
  first.expect_right();
  second.expect_right();
}

TEST(GpuDevices, ThreadsSetUpAndTearDownBesideOthers) {
  Worker first(0);
  std::thread other([] {
    for (int i = 0; i < 3; ++i) {
      Worker second(1);
      second.queue_all();
      second.expect_right();
    }
  });
  first.queue_all();
  first.expect_right();
  other.join();
}

TEST(GpuDevices, AGraphEach) {
  Worker first(0), second(1);
  std::vector<DeviceGraph> graphs;
  for (Worker* worker : {&first, &second}) {
    worker->plan(3);
    graphs.emplace_back(worker->stream(), [worker] { worker->run(3); });
  }
  for (int round = 0; round < 5; ++round) {
    graphs[0].launch(first.stream());
    graphs[1].launch(second.stream());
  }
  for (Worker* worker : {&first, &second}) {
    worker->stream().synchronize();
    EXPECT_TRUE(
        close_to_reference(worker->tensors(3).output(worker->problem(3)), worker->problem(3)));
  }
}

TEST(GpuDevices, ServicesFollowTheirTensors) {
  for (const int device : {1, 0, 1}) {
    const HostTensor rows(DType::bf16, {3, 2, 64}, 1.0);
    HostTensor pages(DType::bf16, {2, 4, 2, 64}, 0.0);
    const HostTensor slots = HostTensor::from(DType::i64, std::vector<std::int64_t>{5, 0, 3});
    const Device there = device_under_test(device);
    const DeviceTensor from(rows.whole(), there), to(pages.whole(), there),
        places(slots.whole(), there);
    const DeviceStream stream(there);
    append_kv(from.view(), {}, {.k = to.view()}, {.slots = places.view()},
              {.stream = stream.handle()});
    stream.synchronize();
    to.fetch();
    for (const int slot : {5, 0, 3})
      EXPECT_EQ(get(pages.whole(), {slot / 4, slot % 4, 1, 63}), 1.0);
    EXPECT_EQ(get(pages.whole(), {1, 3, 0, 0}), 0.0);
  }
}

}  // namespace
}  // namespace trencadis::testing
