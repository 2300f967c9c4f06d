#include "info_command.h"

#include <fmt/format.h>
#include <trencadis/error.h>
#include <trencadis/runtime.h>
#include <trencadis/version.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

namespace trencadis::app {
namespace {

using nlohmann::ordered_json;

/// What the kernel cache holds, or why that cannot be said.
struct CacheSummary {
  std::string directory;
  std::size_t kernels = 0;
  std::int64_t bytes = 0;
  std::string problem;
};

CacheSummary summarise_cache() {
  CacheSummary cache;
  try {
    cache.directory = cache_directory();
    for (const CacheEntry& entry : cache_list()) {
      ++cache.kernels;
      cache.bytes += entry.bytes;
    }
  } catch (const Error& error) {
    cache.problem = error.what();
  }
  return cache;
}

std::string describe(const DeviceLimits& device) {
  return fmt::format("{}: {} queues, {:g} GB/s and {:g} TFLOP/s assumed", device.name,
                     device.num_ctas, device.read_gbps, device.matmul_tflops);
}

std::string describe(const CudaDeviceInfo& device) {
  constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
  return fmt::format("device {}: {}, compute capability {}.{}, {:.1f} GiB", device.ordinal,
                     device.name, device.compute_capability_major, device.compute_capability_minor,
                     static_cast<double>(device.memory_bytes) / kGiB);
}

void print_cuda_driver() {
  const CudaDriverInfo driver = cuda_driver();
  fmt::print("\ncuda driver\n");
  if (!driver.version.empty()) fmt::print("  {} at {}\n", driver.version, driver.path);
  if (!driver.available) fmt::print("  not available: {}\n", driver.reason);
  for (const CudaDeviceInfo& device : driver.devices) fmt::print("  {}\n", describe(device));
}

void print() {
  fmt::print("trencadis {}\n\nbackends\n", TRENCADIS_VERSION_STRING);
  for (const BackendInfo& backend : backends()) {
    fmt::print("  {:<10} {}\n", backend.name,
               backend.available ? backend.detail : "not available: " + backend.reason);
    for (const DeviceLimits& device : backend.devices)
      fmt::print("  {:<10} {}\n", "", describe(device));
  }
  fmt::print("\ncompilers\n");
  for (const CompilerInfo& compiler : compilers())
    fmt::print("  {:<10} {}\n", compiler.name,
               compiler.available ? fmt::format("{} at {}", compiler.version, compiler.path)
                                  : "not available: " + compiler.reason);
  print_cuda_driver();
  const CacheSummary cache = summarise_cache();
  fmt::print("\nkernel cache\n  {}\n",
             cache.problem.empty()
                 ? fmt::format("{}: {} kernels, {:.1f} KB", cache.directory, cache.kernels,
                               static_cast<double>(cache.bytes) / 1e3)
                 : cache.problem);
}

ordered_json to_json(const DeviceLimits& device) {
  return {{"name", device.name},
          {"num_ctas", device.num_ctas},
          {"read_gbps", device.read_gbps},
          {"matmul_tflops", device.matmul_tflops}};
}

ordered_json to_json(const CudaDriverInfo& driver) {
  ordered_json devices = ordered_json::array();
  for (const CudaDeviceInfo& device : driver.devices)
    devices.push_back({{"ordinal", device.ordinal},
                       {"name", device.name},
                       {"compute_capability", fmt::format("{}.{}", device.compute_capability_major,
                                                          device.compute_capability_minor)},
                       {"memory_bytes", device.memory_bytes}});
  return {{"available", driver.available},
          {"path", driver.path},
          {"version", driver.version},
          {"reason", driver.reason},
          {"devices", devices}};
}

void print_json() {
  ordered_json info{{"version", TRENCADIS_VERSION_STRING},
                    {"backends", ordered_json::array()},
                    {"compilers", ordered_json::array()}};
  for (const BackendInfo& backend : backends()) {
    ordered_json devices = ordered_json::array();
    for (const DeviceLimits& device : backend.devices) devices.push_back(to_json(device));
    info["backends"].push_back({{"name", backend.name},
                                {"available", backend.available},
                                {"detail", backend.detail},
                                {"reason", backend.reason},
                                {"devices", devices}});
  }
  for (const CompilerInfo& compiler : compilers())
    info["compilers"].push_back({{"name", compiler.name},
                                 {"available", compiler.available},
                                 {"path", compiler.path},
                                 {"version", compiler.version},
                                 {"reason", compiler.reason}});
  info["cuda_driver"] = to_json(cuda_driver());
  const CacheSummary cache = summarise_cache();
  info["cache"] = {{"directory", cache.directory},
                   {"kernels", cache.kernels},
                   {"bytes", cache.bytes},
                   {"problem", cache.problem}};
  fmt::print("{}\n", info.dump(1));
}

}  // namespace

void add_info_command(CLI::App& app) {
  CLI::App& command =
      *app.add_subcommand("info", "What can run and compile here, and why something cannot");
  const auto json = std::make_shared<bool>(false);
  command.add_flag("--json", *json, "print JSON");
  command.callback([json] {
    if (*json)
      print_json();
    else
      print();
  });
}

}  // namespace trencadis::app
