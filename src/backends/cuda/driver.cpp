#include "backends/cuda/driver.h"

#include <optional>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/env.h"

namespace trencadis::cuda {
namespace {

using base::DynamicLibrary;

constexpr int kOldestVersion = 12000;  // cuLaunchKernelEx, and cubins of NVRTC 12

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

DynamicLibrary find_libcuda() {
  const std::string chosen = base::environment("TRENCADIS_LIBCUDA");
  std::string reason;
  std::optional<DynamicLibrary> library =
      DynamicLibrary::open(chosen.empty() ? "libcuda.so.1" : chosen, &reason);
  if (library) return *std::move(library);
  if (!chosen.empty()) {
    base::fail(ErrorKind::not_supported,
               "no CUDA driver: TRENCADIS_LIBCUDA is set, so only it was tried: {}", reason);
  }
  base::fail(ErrorKind::not_supported,
             "no CUDA driver: libcuda.so.1 is not where the dynamic linker looks ({}); install "
             "NVIDIA's driver, or set TRENCADIS_LIBCUDA to the library's path",
             reason);
}

/// Before anything else is looked up: an old driver lacks functions.
int version_of(const DynamicLibrary& library) {
  auto* query = library.function<Status(int*)>("cuDriverGetVersion");
  int version = 0;
  const Status status = query == nullptr ? Status::not_found : query(&version);
  if (status == Status::stub_library) {
    base::fail(ErrorKind::not_supported,
               "{} is the toolkit's stub, which programs link with, and no driver", library.path());
  }
  if (status != Status::success) {
    base::fail(ErrorKind::not_supported, "{} does not tell its version", library.path());
  }
  return version;
}

void require_version(const DynamicLibrary& library, int version) {
  if (version < kOldestVersion) {
    base::fail(ErrorKind::not_supported,
               "the CUDA driver {} is too old: needs {} or newer, is {}; update NVIDIA's driver",
               library.path(), version_text(kOldestVersion), version_text(version));
  }
}

DeviceDescription describe_device(const Driver& driver, int ordinal) {
  DeviceDescription description{.ordinal = ordinal, .name = std::string(256, '\0')};
  Device device = 0;
  driver.device_get(&device, ordinal);
  driver.device_get_name(description.name.data(), static_cast<int>(description.name.size()),
                         device);
  description.name.resize(description.name.find('\0'));
  driver.device_get_attribute(&description.major, DeviceAttribute::compute_capability_major,
                              device);
  driver.device_get_attribute(&description.minor, DeviceAttribute::compute_capability_minor,
                              device);
  std::size_t bytes = 0;
  driver.device_total_mem(&bytes, device);
  description.memory_bytes = static_cast<std::int64_t>(bytes);
  return description;
}

}  // namespace

StatusTexts::StatusTexts(const DynamicLibrary& library, const LaunchLogs& logs)
    : name_(library.function<Query>("cuGetErrorName")),
      text_(library.function<Query>("cuGetErrorString")),
      current_context_(library.function<Status(Context*)>("cuCtxGetCurrent")),
      logs_(logs) {
  require_function(library, "cuGetErrorName", name_ != nullptr);
  require_function(library, "cuGetErrorString", text_ != nullptr);
  require_function(library, "cuCtxGetCurrent", current_context_ != nullptr);
}

std::string StatusTexts::describe(Status status) const {
  if (!is_kernel_fault(status)) return name(status);
  Context current = nullptr;
  if (current_context_(&current) != Status::success) current = nullptr;
  const std::string launches = logs_.describe(current);
  if (launches.empty()) return name(status);
  return fmt::format(
      "{}: a kernel that was launched before this call failed, one of the last {}; a graph's are "
      "told by its capture; with TRENCADIS_DEBUG_CHECKS=1 the launch that fails is named; the "
      "context takes no more calls, so the process has to end",
      name(status), launches);
}

std::string StatusTexts::name(Status status) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (name_(status, &name) != Status::success || name == nullptr) {
    return fmt::format("status {}, which this driver does not name", static_cast<int>(status));
  }
  if (text_(status, &text) != Status::success || text == nullptr) return name;
  return fmt::format("{} ({})", name, text);
}

void StatusTexts::fail(const char* call, Status status) const {
  // By the name that documentation uses.
  std::string_view name = call;
  if (name.ends_with("_v2")) name.remove_suffix(3);
  base::fail(ErrorKind::device, "{} failed: {}", name, describe(status));
}

void require_function(const DynamicLibrary& library, const char* symbol, bool found) {
  if (!found) {
    base::fail(ErrorKind::not_supported, "the CUDA driver {} has no function {}", library.path(),
               symbol);
  }
}

std::unique_ptr<const Driver> Driver::open() {
  DynamicLibrary library = find_libcuda();
  require_version(library, version_of(library));
  std::unique_ptr<const Driver> driver(new Driver(std::move(library)));
  if (const Status status = driver->init.status(0); status != Status::success) {
    base::fail(ErrorKind::not_supported, "the CUDA driver {} cannot be used: cuInit failed: {}",
               driver->path(), driver->texts().describe(status));
  }
  return driver;
}

int Driver::version() const {
  int version = 0;
  driver_get_version(&version);
  return version;
}

int Driver::device_count() const {
  int count = 0;
  device_get_count(&count);
  return count;
}

const Driver& driver() {
  // Never destroyed: other static objects may still hold buffers while the process ends.
  static const Driver* const opened = Driver::open().release();
  return *opened;
}

DriverDescription describe_driver() {
  DriverDescription description;
  try {
    const DynamicLibrary library = find_libcuda();
    description.path = library.path();
    description.version = version_text(version_of(library));
    const std::unique_ptr<const Driver> driver = Driver::open();
    for (int ordinal = 0; ordinal < driver->device_count(); ++ordinal) {
      description.devices.push_back(describe_device(*driver, ordinal));
    }
    if (description.devices.empty()) description.reason = "the CUDA driver lists no device";
  } catch (const Error& error) {
    description.reason = error.what();
    description.devices.clear();
  }
  description.available = description.reason.empty();
  return description;
}

}  // namespace trencadis::cuda
