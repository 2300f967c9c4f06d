#include "backends/cuda/service_kernels.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <utility>

#include "backends/cuda/device_architecture.h"
#include "base/check.h"
#include "base/env.h"
#include "jit/artifact_cache.h"

namespace trencadis::cuda {
namespace {

using codegen::Service;
using codegen::ServiceFamily;

DeviceModule load(const ContextPointer& context, const ServiceModuleId& id,
                  std::string_view architecture) {
  const jit::KernelSource source = codegen::service_source(id.family, id.from, id.to, architecture);
  const jit::LoadedArtifact code = jit::load_device_kernel(source, std::string(architecture));
  return DeviceModule(context, *code.artifact, source.name);
}

/// Modules of this process by device and key. Safe for any number of threads; two that ask for one
/// module share one loading, and others do not wait for it.
class ServiceModules {
 public:
  std::shared_ptr<const ServiceModule> prepare(const ContextPointer& context,
                                               const ServiceModuleId& id,
                                               std::string_view architecture) {
    Slot& slot = slot_of(context->ordinal(), id);
    const std::lock_guard lock(slot.mutex);
    return loaded(slot, context, id, architecture);
  }

  /// Valid for the process's life: a graph that was captured, or a launch that has not ended, may
  /// hold the functions when the last Attention goes.
  const ServiceModule& use(int ordinal, const ServiceModuleId& id, Stream stream) {
    Slot& slot = slot_of(ordinal, id);
    const std::lock_guard lock(slot.mutex);
    if (slot.used) return *slot.used;
    slot.used = slot.loaded.lock();
    if (slot.used) return *slot.used;
    const ContextPointer context = PrimaryContext::retain(driver(), ordinal);
    expect_no_capture(*context, id, stream);
    slot.used = loaded(slot, context, id, architecture_of(*context).name);
    return *slot.used;
  }

 private:
  struct Slot {
    std::mutex mutex;  // held while the module is loaded
    std::weak_ptr<const ServiceModule> loaded;
    std::shared_ptr<const ServiceModule> used;
  };

  Slot& slot_of(int ordinal, const ServiceModuleId& id) {
    const std::lock_guard lock(mutex_);
    return slots_[{ordinal, id}];
  }

  static std::shared_ptr<const ServiceModule> loaded(Slot& slot, const ContextPointer& context,
                                                     const ServiceModuleId& id,
                                                     std::string_view architecture) {
    if (auto module = slot.loaded.lock()) return module;
    auto module = std::make_shared<const ServiceModule>(context, id, architecture);
    slot.loaded = module;
    return module;
  }

  /// The driver refuses to load code then, in words that nobody understands.
  static void expect_no_capture(const PrimaryContext& context, const ServiceModuleId& id,
                                Stream stream) {
    const ContextGuard guard(context);
    base::check(!context.is_capturing(stream),
                "the kernels of {} from {} to {} are not loaded, and the stream is being captured: "
                "call once before, or make an Attention of these dtypes",
                id.family == ServiceFamily::pages ? "tokens and pages" : "merges",
                to_string(id.from), to_string(id.to));
  }

  std::mutex mutex_;
  std::map<std::pair<int, ServiceModuleId>, Slot> slots_;
};

ServiceModules& process_service_modules() {
  // Never destroyed, as the caches of jit/: at the end of a process the driver may leave first.
  static auto* modules = new ServiceModules;
  return *modules;
}

}  // namespace

ServiceModule::ServiceModule(ContextPointer context, ServiceModuleId id,
                             std::string_view architecture)
    : context_(std::move(context)), module_(load(context_, id, architecture)) {
  std::ranges::transform(codegen::services_of(id.family), functions_.begin(), [&](Service service) {
    return module_.function(service_symbol(service, id.from, id.to));
  });
  const int threads = context_->attribute(DeviceAttribute::max_threads_per_multiprocessor);
  const int resident = threads / static_cast<int>(codegen::kServiceThreads);
  max_ctas_ = static_cast<unsigned>(context_->attribute(DeviceAttribute::multiprocessor_count) *
                                    std::max(resident, 1));
  debug_ = base::environment_flag("TRENCADIS_DEBUG_CHECKS");
}

void ServiceModule::launch(Service service, const void* params, double bytes, Stream stream) const {
  // A thread takes 16 bytes at a time. More CTAs than fit at once would only wait for a place: the
  // kernels walk.
  constexpr double kCtaBytes = 16.0 * codegen::kServiceThreads;
  LaunchConfig config;
  config.grid_x =
      static_cast<unsigned>(std::clamp(std::ceil(bytes / kCtaBytes), 1.0, double{1} * max_ctas_));
  config.block_x = codegen::kServiceThreads;
  config.stream = stream;
  const auto functions = codegen::services_of(codegen::family_of(service));
  const auto index =
      static_cast<std::size_t>(std::ranges::find(functions, service) - functions.begin());
  void* parameters[] = {const_cast<void*>(params)};  // the driver copies what they point to
  const ContextGuard guard(*context_);
  if (debug_ && !context_->is_capturing(stream)) [[unlikely]]
    return context_->launch_and_wait(config, functions_[index], parameters);
  context_->launch(config, functions_[index], parameters);
}

std::vector<ServiceModuleId> services_of(const AttentionSpec& spec) {
  const DType q = spec.dtype_q, kv = spec.dtype_kv, o = spec.dtype_o;
  std::vector<ServiceModuleId> ids{{ServiceFamily::pages, kv, kv}, {ServiceFamily::pages, q, kv},
                                   {ServiceFamily::pages, kv, q},  {ServiceFamily::pages, o, kv},
                                   {ServiceFamily::pages, kv, o},  {ServiceFamily::merges, o, o},
                                   {ServiceFamily::merges, o, q}};
  std::ranges::sort(ids);
  const auto equal = std::ranges::unique(ids);
  ids.erase(equal.begin(), equal.end());
  return ids;
}

std::vector<jit::KernelSource> service_sources(const AttentionSpec& spec,
                                               std::string_view architecture) {
  std::vector<jit::KernelSource> sources;
  for (const ServiceModuleId& id : services_of(spec))
    sources.push_back(codegen::service_source(id.family, id.from, id.to, architecture));
  sources.push_back(codegen::check_plan_source(spec, architecture));
  return sources;
}

PreparedServices prepare_services(const AttentionSpec& spec, const ContextPointer& context,
                                  std::string_view architecture) {
  PreparedServices prepared;
  for (const ServiceModuleId& id : services_of(spec))
    prepared.push_back(process_service_modules().prepare(context, id, architecture));
  return prepared;
}

void launch_service(const ServiceLaunch& launch, const void* params) {
  const auto stream = static_cast<Stream>(launch.stream);
  const ServiceModuleId id{codegen::family_of(launch.service), launch.from, launch.to};
  process_service_modules()
      .use(launch.ordinal, id, stream)
      .launch(launch.service, params, launch.bytes, stream);
}

}  // namespace trencadis::cuda
