// The kernels that no spec shapes, in contexts: what append_kv, gather_kv, copy_pages and
// merge_states launch. The process holds them, since those functions have no object that could.
#pragma once

#include <trencadis/attention_spec.h>

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "backends/cuda/resources.h"
#include "codegen/cuda_service_source.h"
#include "jit/kernel_source.h"

namespace trencadis::cuda {

struct ServiceModuleId {
  codegen::ServiceFamily family;
  DType from, to;
  friend auto operator<=>(const ServiceModuleId&, const ServiceModuleId&) = default;
};

/// A family's kernels for a pair of dtypes, loaded.
class ServiceModule {
 public:
  /// From the cache, or compiled. Throws as jit::load_device_kernel; Error(device).
  ServiceModule(ContextPointer context, ServiceModuleId id, std::string_view architecture);

  /// On a grid for `bytes` that the kernel moves. With $TRENCADIS_DEBUG_CHECKS waits for the stream
  /// before and after, where it is not being captured. Throws Error(device).
  void launch(codegen::Service service, const void* params, double bytes, Stream stream) const;

 private:
  ContextPointer context_;
  DeviceModule module_;
  std::array<Kernel, 3> functions_;  // in the order of codegen::services_of
  unsigned max_ctas_;                // of a launch
  bool debug_;
};

using PreparedServices = std::vector<std::shared_ptr<const ServiceModule>>;

/// What a user of a spec also calls: new keys and values are of the type of q or o, states of that
/// of o, and merged ones of that of o or q. Each once.
std::vector<ServiceModuleId> services_of(const AttentionSpec& spec);

/// Their texts, and that of the debug mode's kernel (plan_check.h): a bundle has it too.
std::vector<jit::KernelSource> service_sources(const AttentionSpec& spec,
                                               std::string_view architecture);

/// Loads them, so that no call waits for a compiler or is refused in a capture. They stay loaded as
/// long as the result lives; those that were launched, for good. Throws as ServiceModule.
PreparedServices prepare_services(const AttentionSpec& spec, const ContextPointer& context,
                                  std::string_view architecture);

struct ServiceLaunch {
  codegen::Service service;
  DType from, to;
  int ordinal;
  double bytes;  // that the kernel moves at most
  void* stream;
};

/// Launches on the device of that ordinal. Throws as ServiceModule and ServiceModule::launch;
/// Error(invalid_argument) where the kernels are not loaded and `stream` is being captured;
/// Error(not_supported) where there is no driver, or no kernels for the device.
void launch_service(const ServiceLaunch& launch, const void* params);

}  // namespace trencadis::cuda
