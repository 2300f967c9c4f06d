#include "engine/registry.h"

#include <fmt/format.h>

#include <array>

#include "backends/cpu/cpu_backend.h"
#include "backends/cuda/cuda_backend.h"
#include "backends/reference/reference_backend.h"
#include "base/check.h"

namespace trencadis {

std::string_view to_string(BackendKind kind) noexcept {
  switch (kind) {
    case BackendKind::automatic:
      return "auto";
    case BackendKind::cpu:
      return "cpu";
    case BackendKind::cuda:
      return "cuda";
    case BackendKind::reference:
      return "reference";
  }
  return "unknown";
}

BackendKind parse_backend(std::string_view name) {
  for (BackendKind kind :
       {BackendKind::automatic, BackendKind::cpu, BackendKind::cuda, BackendKind::reference})
    if (name == to_string(kind)) return kind;
  base::fail(ErrorKind::invalid_argument,
             "backend is '{}', expected one of auto, cpu, cuda, reference", name);
}

namespace engine {
namespace {

constexpr const char* kOracle = "it is an oracle, and slow";

std::string reason_against(const RegisteredBackend& entry, const AttentionSpec& spec,
                           const AttentionConfig& config) {
  if (BackendInfo info = entry.backend->info(); !info.available) return info.reason;
  return entry.backend->can_implement(spec, config);
}

}  // namespace

std::span<const RegisteredBackend> registered_backends() {
  static const std::unique_ptr<Backend> cuda = make_cuda_backend();
  static const std::unique_ptr<Backend> cpu = make_cpu_backend();
  static const std::unique_ptr<Backend> reference = make_reference_backend();
  static const std::array<RegisteredBackend, 3> all{{
      {BackendKind::cuda, cuda.get(), ""},
      {BackendKind::cpu, cpu.get(), ""},
      {BackendKind::reference, reference.get(), kOracle},
  }};
  return all;
}

const RegisteredBackend& choose_backend(const AttentionSpec& spec, const AttentionConfig& config) {
  std::string reasons;
  for (const RegisteredBackend& entry : registered_backends()) {
    const bool asked = config.backend == entry.kind;
    if (!asked && config.backend != BackendKind::automatic) continue;
    const std::string reason = asked || *entry.unchosen_reason == 0
                                   ? reason_against(entry, spec, config)
                                   : entry.unchosen_reason;
    if (reason.empty()) return entry;
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", to_string(entry.kind), reason);
  }
  base::fail(ErrorKind::not_supported, "no backend can run this spec ({})", reasons);
}

}  // namespace engine

std::vector<BackendInfo> backends() {
  std::vector<BackendInfo> infos;
  for (const engine::RegisteredBackend& entry : engine::registered_backends()) {
    infos.push_back(entry.backend->info());
  }
  return infos;
}

std::string can_implement(const AttentionSpec& spec, const AttentionConfig& config,
                          BackendKind backend) {
  AttentionConfig one = config;
  one.backend = backend;
  try {
    engine::choose_backend(spec, one);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::not_supported) throw;
    return error.what();
  }
  return "";
}

}  // namespace trencadis
