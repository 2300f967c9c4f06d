#include "backends/cuda/cuda_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "backends/cuda/compiled_kernel.h"
#include "backends/cuda/cuda_executor.h"
#include "backends/cuda/device_architecture.h"
#include "backends/cuda/driver.h"
#include "backends/cuda/kernel_policy.h"
#include "backends/cuda/resources.h"
#include "base/check.h"
#include "codegen/cuda_architecture.h"

namespace trencadis::engine {
namespace {

using cuda::DeviceAttribute;

/// What a device sustains, from what it says of itself: 96 % of the peak rate of its memory, as
/// plain reads reach on an H200, and the products of its tensor cores at its clock.
DeviceLimits limits_of(const cuda::PrimaryContext& context, const cuda::KernelPolicy& policy) {
  const auto attribute = [&](DeviceAttribute which) {
    return static_cast<double>(context.attribute(which));
  };
  const double sms = attribute(DeviceAttribute::multiprocessor_count);
  const double memory_khz = attribute(DeviceAttribute::memory_clock_rate);
  const double bus_bytes = attribute(DeviceAttribute::global_memory_bus_width) / 8;
  const double khz = attribute(DeviceAttribute::clock_rate);
  DeviceLimits limits = policy.tiles;
  limits.name = fmt::format("cuda:{}", context.ordinal());
  limits.num_ctas = static_cast<int>(sms) * policy.config.ctas_per_sm;
  // Two transfers a clock. A driver that no longer tells is taken for one of 1 TB/s.
  const double peak_gbps = 2 * memory_khz * bus_bytes * 1e-6;
  limits.read_gbps = peak_gbps > 0 ? 0.96 * peak_gbps : 1000;
  // A dense product of 16-bit elements takes 1,024 multiply-adds a clock and multiprocessor, 2,048
  // by warpgroups; attention reaches 55 to 65 % of either, as measured on an H200.
  const bool warpgroups = policy.config.producer_warps > 0;
  const double tflops = (warpgroups ? 0.6 * 2 : 0.65) * sms * 2 * 1024 * khz * 1e-9;
  limits.matmul_tflops = tflops > 0 ? tflops : 100;
  limits.l2_bytes = context.attribute(DeviceAttribute::l2_cache_size);
  // Three trips to memory before the first product, and the way out.
  limits.item_overhead_us = 2.5;
  return limits;
}

class CudaBackend final : public Backend {
 public:
  BackendInfo info() const override {
    BackendInfo info;
    info.kind = BackendKind::cuda;
    info.name = to_string(BackendKind::cuda);
    const cuda::DriverDescription driver = cuda::describe_driver();
    info.available = driver.available;
    info.reason = driver.reason;
    if (!driver.available) return info;
    info.detail = fmt::format("driver {}", driver.version);
    for (const cuda::DeviceDescription& device : driver.devices)
      info.detail += fmt::format(", cuda:{} {} ({}.{})", device.ordinal, device.name, device.major,
                                 device.minor);
    return info;
  }

  std::string can_implement(const AttentionSpec& spec,
                            const AttentionConfig& config) const override {
    if (std::string reason = cuda::unsupported_reason(spec); !reason.empty()) return reason;
    try {
      policy_of(spec, *retain(config));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::not_supported && error.kind() != ErrorKind::invalid_argument)
        throw;
      return error.what();
    }
    return "";
  }

  DeviceLimits device_limits(const AttentionSpec& spec,
                             const AttentionConfig& config) const override {
    const cuda::ContextPointer context = retain(config);
    return limits_of(*context, policy_of(spec, *context));
  }

  std::unique_ptr<Executor> prepare(const AttentionSpec& spec,
                                    const AttentionConfig& config) override {
    const cuda::ContextPointer context = retain(config);
    const cuda::KernelPolicy policy = policy_of(spec, *context);
    auto check = config.debug_checks
                     ? std::make_unique<cuda::PlanCheck>(context, spec, policy.config.architecture)
                     : nullptr;
    return std::make_unique<cuda::CudaExecutor>(cuda::CompiledKernel(spec, policy, context),
                                                limits_of(*context, policy),
                                                config.limits.max_qo_tokens > 0, std::move(check));
  }

 private:
  static cuda::ContextPointer retain(const AttentionConfig& config) {
    return cuda::PrimaryContext::retain(cuda::driver(), config.device_index);
  }
  static cuda::KernelPolicy policy_of(const AttentionSpec& spec,
                                      const cuda::PrimaryContext& context) {
    return cuda::kernel_policy(spec, cuda::architecture_of(context));
  }
};

}  // namespace

std::unique_ptr<Backend> make_cuda_backend() {
  return std::make_unique<CudaBackend>();
}

}  // namespace trencadis::engine
