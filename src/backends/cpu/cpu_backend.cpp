#include "backends/cpu/cpu_backend.h"

#include <fmt/format.h>

#include <utility>

#include "backends/cpu/cpu_executor.h"
#include "backends/cpu/microkernels.h"
#include "backends/cpu/thread_pool.h"
#include "backends/cpu/variant_registry.h"
#include "base/check.h"

namespace trencadis::engine {
namespace {

constexpr int kMaxHeadDim = 1024;

bool is_storage(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

std::string target_names() {
  std::string names;
  for (const cpu::Microkernels* simd : cpu::supported_microkernels())
    names += fmt::format("{}{}", names.empty() ? "" : ", ", simd->target);
  return names;
}

class CpuBackend final : public Backend {
 public:
  BackendInfo info() const override {
    BackendInfo info;
    info.kind = BackendKind::cpu;
    info.name = to_string(BackendKind::cpu);
    const auto tables = cpu::supported_microkernels();
    info.available = !tables.empty();
    if (!info.available) {
      info.reason = "this CPU lacks the least instruction set that is compiled in (SSE4.2 or NEON)";
      return info;
    }
    const int threads = cpu::usable_cpus();
    info.detail = fmt::format("{} threads, {} (can run: {})", threads, tables.front()->target,
                              target_names());
    info.devices.push_back(cpu::cpu_limits(threads, *tables.front()));
    return info;
  }

  std::string can_implement(const AttentionSpec& spec, const AttentionConfig&) const override {
    if (cpu::supported_microkernels().empty()) return info().reason;
    const std::pair<const char*, DType> dtypes[] = {
        {"dtype_q", spec.dtype_q}, {"dtype_kv", spec.dtype_kv}, {"dtype_o", spec.dtype_o}};
    for (const auto& [name, dtype] : dtypes)
      if (!is_storage(dtype))
        return fmt::format("{} is {}, supported are float32, float16 and bfloat16", name,
                           to_string(dtype));
    for (const int dim : {spec.head_dim_qk, spec.vo()})
      if (dim < 1 || dim > kMaxHeadDim)
        return fmt::format("a head dim is {}, supported are 1 to {}", dim, kMaxHeadDim);
    return "";
  }

  DeviceLimits device_limits(const AttentionSpec& /*spec*/,
                             const AttentionConfig& config) const override {
    return cpu::cpu_limits(cpu::resolve_threads(config.num_threads),
                           *cpu::supported_microkernels().front());
  }

  std::unique_ptr<Executor> prepare(const AttentionSpec& spec,
                                    const AttentionConfig& config) override {
    return std::make_unique<cpu::CpuExecutor>(spec, cpu::resolve_variant(spec.variant),
                                              *cpu::supported_microkernels().front(),
                                              cpu::resolve_threads(config.num_threads));
  }
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend() {
  return std::make_unique<CpuBackend>();
}

}  // namespace trencadis::engine
