// `trencadis replay` on a device from end to end on the host: the trace is served through the fake
// driver, whose launches run the kernels of append and attention emulated, and sampled steps are
// held against the float64 reference.
#include "serving/replay.h"

#include <gmock/gmock.h>

#include <exception>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "codegen/cuda_service_source.h"
#include "contract/append.h"
#include "cuda/entry/append.h"
#include "cuda/entry/copy_pages.h"
#include "serving/device_read_rate.h"
#include "simt/emulated_device.h"
#include "simt/launch.h"
#include "support/expect_error.h"

namespace trencadis::app {
namespace {

using codegen::Service;
using testing::EmulatedDevice;
using testing::expect_error;
using ::testing::HasSubstr;

/// Its kernels run as they are compiled into the test; `user` is how many ran.
template <class Params, auto kKernel>
void run_service(const char* function, unsigned grid, unsigned block, unsigned shared_bytes,
                 void** parameters, void* user) {
  const int launched = ++*static_cast<int*>(user);
  const auto& params = *static_cast<const Params*>(parameters[0]);
  try {
    simt::launch({.ctas = static_cast<int>(grid),
                  .threads = static_cast<int>(block),
                  .shared_bytes = shared_bytes,
                  .seed = static_cast<std::uint64_t>(launched)},
                 [&] { kKernel(params); });
  } catch (const std::exception& error) {
    ADD_FAILURE() << function << ": " << error.what();
  }
}

class ReplayTest : public EmulatedDevice {
 protected:
  void SetUp() override {
    EmulatedDevice::SetUp();
    if (IsSkipped()) return;
    use(testing::plain_bf16());
    use_service<contract::AppendParams, &entry::append<ptx::BFloat, ptx::BFloat>>(Service::append,
                                                                                  &appends_);
    use_service<contract::CopyPagesParams, &entry::copy_pages<ptx::BFloat, ptx::BFloat>>(
        Service::copy_pages, &copies_);
  }

  /// Modules of append_kv() stay for the process's life, and their device's context with them.
  void TearDown() override {
    for (const char* what :
         {"freed in use", "device buffer", "pinned buffer", "event", "stream", "executable graph"})
      EXPECT_EQ(fake().count(what), 0) << what;
    EXPECT_EQ(fake().current_device(), -1);
  }

  template <class Params, auto kKernel>
  void use_service(Service service, int* launched) {
    fake().on_launch(codegen::service_symbol(service, DType::bf16, DType::bf16), {sizeof(Params)},
                     run_service<Params, kKernel>, launched);
  }

  /// Prompts and answers that overlap: steps of decode alone, of prompts alone and of both.
  std::string trace() {
    const auto path = std::filesystem::path(::testing::TempDir()) / "replay_test.csv";
    std::ofstream(path) << "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                           "2023-11-16 18:15:46,21,4\n"
                           "2023-11-16 18:15:46,5,9\n"
                           "2023-11-16 18:15:46,33,1\n"
                           "2023-11-16 18:15:47,50,3\n";
    return path;
  }

  ReplayOptions options() {
    ReplayOptions options;
    options.trace = trace();
    options.model = {.num_qo_heads = 4, .num_kv_heads = 2, .head_dim = 64, .num_layers = 3};
    options.backend = BackendKind::cuda;
    options.threads = 1;
    options.batching.max_batch = 3;
    options.batching.chunk_tokens = 24;
    options.batching.page_size = 16;
    options.pool_tokens = 16 * 12;
    options.verify_steps = 100;  // as many as there are, nearly
    options.read_rate_tbps = 1e-3;
    return options;
  }

  int appends_ = 0, copies_ = 0;
};

TEST_F(ReplayTest, ServesATraceUnderGraphsAndAgreesWithTheReference) {
  const int launched = fake().count("cuGraphLaunch");
  const int captured = fake().count("cuGraphInstantiateWithFlags");
  const ReplayReport report = replay(options());
  EXPECT_EQ(report.backend, "cuda");
  EXPECT_EQ(report.requests, 4);
  ASSERT_TRUE(report.verification);
  EXPECT_TRUE(report.verification->passed()) << report.verification->worst;
  EXPECT_GE(report.verification->steps, 4);
  EXPECT_GT(report.verification->max_error, 0.0) << "bits that agree were not compared";
  EXPECT_GT(report.decode_steps, 2);
  EXPECT_GT(report.steps - report.decode_steps, 2);

  // Three layers a step, each an append and a run: in graphs, of which there are two for decode and
  // two for mixed steps.
  EXPECT_EQ(appends_, 3 * report.steps);
  EXPECT_EQ(static_cast<std::int64_t>(launches.size()), 3 * report.steps);
  EXPECT_EQ(fake().count("cuGraphLaunch") - launched, 2 * report.steps);
  EXPECT_EQ(fake().count("cuGraphInstantiateWithFlags") - captured, 4);
}

TEST_F(ReplayTest, ServesTheStepsOfTheCpu) {
  ReplayOptions options = this->options();
  options.verify_steps = 0;
  const ReplayReport device = replay(options);
  options.backend = BackendKind::cpu;
  const ReplayReport host = replay(options);
  EXPECT_FALSE(host.gpu);
  EXPECT_EQ(device.steps, host.steps);
  EXPECT_EQ(device.decode_steps, host.decode_steps);
  EXPECT_EQ(device.decode_kv_bytes, host.decode_kv_bytes);
  EXPECT_EQ(device.pool_pages, host.pool_pages);
}

TEST_F(ReplayTest, ReportsEachDecodeStepAgainstItsReadFloor) {
  ReplayOptions options = this->options();
  options.verify_steps = 0;
  const ReplayReport report = replay(options);
  ASSERT_TRUE(report.gpu);
  EXPECT_EQ(report.gpu->pool_bytes, 3 * 2 * 12 * 16 * 2 * 64 * 2);
  EXPECT_EQ(report.gpu->floor_us.count(), report.decode_steps);
  EXPECT_NEAR(report.gpu->floor_us.sum(), report.decode_kv_bytes / 1e3, 1e-6)  // at 1 GB/s
      << "in microseconds";
  EXPECT_LE(report.gpu->decode_batch.max(), 3);

  const auto json = nlohmann::json::parse(to_json(report));
  EXPECT_DOUBLE_EQ(json.at("read_floor").at("read_tbps").get<double>(), 1e-3);
  EXPECT_EQ(json.at("read_floor").at("read_rate"), "given");
  EXPECT_GT(json.at("read_floor").at("share").at("median").get<double>(), 0.0);
  EXPECT_GE(json.at("attention_us").at("decode").at("p90").get<double>(),
            json.at("attention_us").at("decode").at("median").get<double>());
  EXPECT_EQ(json.at("pool_bytes"), report.gpu->pool_bytes);
  EXPECT_THAT(to_table(report), HasSubstr("at 0.00 TB/s as given"));
}

TEST_F(ReplayTest, AnAppendThatWritesNothingIsFound) {
  ReplayOptions options = this->options();
  fake().on_launch(
      codegen::service_symbol(Service::append, DType::bf16, DType::bf16),
      {sizeof(contract::AppendParams)},
      [](const char*, unsigned, unsigned, unsigned, void**, void*) {}, nullptr);
  const ReplayReport report = replay(options);
  ASSERT_TRUE(report.verification);
  EXPECT_FALSE(report.verification->passed());
}

TEST_F(ReplayTest, LayersWithAndWithoutAWindowHavePlansAndWorkspacesOfTheirOwn) {
  ReplayOptions options = this->options();
  options.model.window = 7;
  options.model.window_every = 2;
  for (const std::int64_t bytes : {0, 4 << 20}) {
    options.workspace_bytes = bytes;
    const ReplayReport report = replay(options);
    EXPECT_EQ(report.plan_us.count(), 2 * report.steps);
    EXPECT_TRUE(report.verification->passed()) << report.verification->worst;
  }
}

TEST_F(ReplayTest, TheCallersWorkspaceIsUsed) {
  ReplayOptions options = this->options();
  options.workspace_bytes = 1024;
  expect_error(ErrorKind::out_of_capacity, {"workspace", "1024"}, [&] { replay(options); });
  options.workspace_bytes = 4 << 20;
  EXPECT_TRUE(replay(options).verification->passed());
}

TEST_F(ReplayTest, ADeviceThatIsTooSmallSaysWhatIsNeeded) {
  ReplayOptions options = this->options();
  options.pool_tokens = std::int64_t{1} << 30;
  expect_error(ErrorKind::out_of_capacity,
               {"the KV pool of all layers needs", "cuda:0 has 0.1 GiB", "--pool-tokens"},
               [&] { replay(options); });
  options.pool_tokens = 40'000;  // of 1,536 bytes each: of the 64 MiB little is left
  options.batching.chunk_tokens = 8192;
  expect_error(ErrorKind::out_of_capacity, {"bytes free", "--max-batch"}, [&] { replay(options); });
}

TEST_F(ReplayTest, ThePoolThatNobodyAskedForIsWhatTheBatchCanNeed) {
  ReplayOptions options = this->options();
  options.pool_tokens = 0;
  options.verify_steps = 1;
  EXPECT_EQ(replay(options).pool_pages, (3 * 53 + 15) / 16);
}

TEST_F(ReplayTest, ACopyTellsTheRateOfTheMemory) {
  EXPECT_GT(measure_copy_rate({DeviceKind::cuda, 0}, DType::bf16, 1 << 18), 0.0);
  EXPECT_EQ(copies_, 6);
}

}  // namespace
}  // namespace trencadis::app
