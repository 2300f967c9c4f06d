// Two devices in one process: each Attention has the context, kernels, plans, memory and streams of
// its own device. The fake driver refuses code for another architecture, and functions and streams
// of another context, and counts copies to memory of another device.
#include <gmock/gmock.h>
#include <trencadis/device.h>

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "backends/cuda/resources.h"
#include "codegen/cuda_service_source.h"
#include "codegen/cuda_source.h"
#include "jit/artifact_cache.h"
#include "simt/emulated_device.h"
#include "support/compare.h"
#include "support/expect_error.h"

namespace trencadis::testing {
namespace {

// Attributes of cuda.h.
constexpr int kMultiprocessors = 16, kMajor = 75, kMinor = 76;

Problem problem_of(std::vector<Lengths> lengths, int device) {
  Limits limits;
  limits.max_batch = 8;
  limits.max_qo_tokens = 80;
  limits.max_pages = 300;
  limits.max_kv_tokens = 2000;
  ProblemBuilder b;
  b.heads(4, 2).dims(64).dtype(DType::bf16).page_size(16).causal().limits(limits);
  Problem problem = b.lengths(std::move(lengths)).build();
  problem.config.backend = BackendKind::cuda;
  problem.config.device_index = device;
  return problem;
}

/// An Attention on a device, with a stream there and steps of unlike lengths.
class Worker {
 public:
  explicit Worker(int device) : stream_({DeviceKind::cuda, device}) {
    for (int i = 0; i < 3; ++i)
      steps_.push_back(problem_of({{1, 900 - 200 * i}, {20 + 5 * i + device, 64}, {1, 0}}, device));
    attention_ = std::make_unique<Attention>(steps_[0].spec, steps_[0].config);
  }
  Attention& attention() { return *attention_; }
  const Problem& step(std::size_t i) const { return steps_[i % steps_.size()]; }
  void* stream() const { return stream_.handle(); }

  void plan(std::size_t i) { attention_->plan(step(i).plan_input(), stream()); }
  Output run(std::size_t i) { return run_on_device(*attention_, step(i), stream()); }
  Output plan_and_run(std::size_t i) {
    plan(i);
    return run(i);
  }

 private:
  DeviceStream stream_;
  std::vector<Problem> steps_;
  std::unique_ptr<Attention> attention_;
};

class DevicesTest : public EmulatedDevice {
 protected:
  void SetUp() override {
    EmulatedDevice::SetUp();
    if (IsSkipped()) return;
    use(plain_bf16());
    fake().set_attribute_of(1, kMultiprocessors, 6);
    foreign_ = fake().count("memory of another device");
  }
  void TearDown() override {
    for (const int attribute : {kMultiprocessors, kMajor, kMinor})
      fake().set_attribute_of(1, attribute, -1);
    EXPECT_EQ(fake().count("memory of another device"), foreign_);
    EmulatedDevice::TearDown();
  }

  /// Each launch has the grid of its device, and reads a plan there.
  void expect_at_home() const {
    for (const Launch& launch : launches) {
      EXPECT_EQ(launch.plan_device, launch.device);
      EXPECT_EQ(launch.grid, launch.device == 0 ? 4u : 6u);
    }
  }

 private:
  int foreign_ = 0;
};

TEST_F(DevicesTest, StepsTakeTurns) {
  Worker first(0), second(1);
  EXPECT_EQ(first.attention().device_limits().name, "cuda:0");
  EXPECT_EQ(second.attention().device_limits().name, "cuda:1");
  EXPECT_EQ(second.attention().device_limits().num_ctas, 6);
  for (std::size_t i = 0; i < 4; ++i) {
    // Each runs the plan that was its last, whatever the other did in between.
    first.plan(i);
    second.plan(i);
    EXPECT_TRUE(close_to_reference(first.run(i), first.step(i))) << i;
    EXPECT_TRUE(close_to_reference(second.run(i), second.step(i))) << i;
    EXPECT_TRUE(close_to_reference(first.run(i), first.step(i))) << i;
  }
  ASSERT_EQ(launches.size(), 12u);
  for (std::size_t i = 0; i < launches.size(); ++i)
    EXPECT_EQ(launches[i].device, i % 3 == 1 ? 1 : 0) << i;
  expect_at_home();
}

TEST_F(DevicesTest, AThreadEach) {
  std::vector<std::vector<Output>> outputs(2);
  Worker workers[] = {Worker(0), Worker(1)};
  const auto serve = [&](std::size_t device) {
    for (std::size_t i = 0; i < 6; ++i) outputs[device].push_back(workers[device].plan_and_run(i));
  };
  std::thread other([&] { serve(1); });
  serve(0);
  other.join();
  for (std::size_t device = 0; device < 2; ++device)
    for (std::size_t i = 0; i < 6; ++i)
      EXPECT_TRUE(close_to_reference(outputs[device][i], workers[device].step(i)))
          << "step " << i << " on cuda:" << device;
  expect_at_home();
}

TEST_F(DevicesTest, ThreadsSetUpAndTearDownBesideOthers) {
  Worker first(0);
  std::thread other([&] {
    for (std::size_t i = 0; i < 3; ++i) {
      Worker second(1);
      EXPECT_TRUE(close_to_reference(second.plan_and_run(i), second.step(i)));
    }
  });
  for (std::size_t i = 0; i < 6; ++i)
    EXPECT_TRUE(close_to_reference(first.plan_and_run(i), first.step(i)));
  other.join();
  expect_at_home();
}

TEST_F(DevicesTest, AGraphOfOneBesideRunsOfTheOther) {
  Worker first(0), second(1);
  first.plan(0);
  second.plan(0);
  FixedTensors tensors(second.step(0));
  RunArgs args = tensors.args(second.step(0), second.stream());
  for (TensorView* view : {&args.q, &args.k, &args.v, &args.out, &args.lse})
    *view = on_device(*view, 1);
  fake().begin_capture(second.stream());
  second.attention().run(args);
  EXPECT_TRUE(close_to_reference(first.run(0), first.step(0)));
  const FakeCuda::Graph graph = fake().end_capture(second.stream());
  ASSERT_NE(graph, nullptr);
  fake().replay(graph, second.stream());
  EXPECT_TRUE(close_to_reference(tensors.output(second.step(0)), second.step(0)));
}

TEST_F(DevicesTest, EachHasKernelsOfItsArchitecture) {
  fake().set_attribute_of(1, kMajor, 8);
  fake().set_attribute_of(1, kMinor, 6);
  fake().on_launch(codegen::kAttentionSymbol, {}, nullptr, nullptr);
  // That the fake tells them apart.
  const cuda::ContextPointer there = cuda::PrimaryContext::retain(cuda::driver(), 1);
  const auto load = [&](const char* architecture) {
    const jit::KernelSource source = codegen::check_plan_source({}, architecture);
    return cuda::DeviceModule(there, *jit::load_device_kernel(source, architecture).artifact, "it");
  };
  expect_error(ErrorKind::device, {"CUDA_ERROR_NO_BINARY_FOR_GPU"}, [&] { load("sm_90a"); });
  EXPECT_NO_THROW(load("sm_86"));

  Problem here = problem_of({{1, 100}}, 0), other = problem_of({{1, 100}}, 1);
  here.config.debug_checks = other.config.debug_checks = true;
  Attention first(here.spec, here.config), second(other.spec, other.config);
  EXPECT_NE(first.device_limits().num_ctas, 0);
  second.plan(other.plan_input());
  EXPECT_NO_THROW(run_on_device(second, other));
  first.plan(here.plan_input());
  EXPECT_NO_THROW(run_on_device(first, here));

  ASSERT_EQ(launches.size(), 2u) << "the checks";
  EXPECT_EQ(launches[0].device, 1);
  EXPECT_EQ(launches[1].device, 0);
}

TEST_F(DevicesTest, TensorsOfAnotherDeviceAreRefused) {
  Worker second(1);
  second.plan(0);
  const Problem& problem = second.step(0);
  FixedTensors tensors(problem);
  expect_error(ErrorKind::type_mismatch, {"q is", "cuda:0", "cuda:1"},
               [&] { second.attention().run(tensors.args(problem, second.stream())); });
  CallersMemory memory(1 << 20);
  AttentionConfig config = problem.config;
  config.workspace = memory.view();  // of cuda:0
  expect_error(ErrorKind::type_mismatch, {"workspace", "cuda:1"},
               [&] { Attention(problem.spec, config); });
  config.device_index = 2;
  expect_error(ErrorKind::not_supported, {"device is 2, expected 0 to 1"},
               [&] { Attention(problem.spec, config); });
}

TEST_F(DevicesTest, AFaultOfOneIsNotTheOthers) {
  Worker first(0), second(1);
  EXPECT_TRUE(close_to_reference(second.plan_and_run(0), second.step(0)));
  first.plan(0);
  fake().fault(codegen::kAttentionSymbol, 700);
  first.run(0);
  expect_error(ErrorKind::device, {"CUDA_ERROR_ILLEGAL_ADDRESS", "one of the last on cuda:0: "},
               [&] { first.plan(1); });
  second.plan(1);  // its context is whole
  fake().fault(codegen::kAttentionSymbol, 0);
  EXPECT_TRUE(close_to_reference(second.run(1), second.step(1)));
}

}  // namespace
}  // namespace trencadis::testing
