#include "backends/cuda/resources.h"

#include "base/check.h"

namespace trencadis::cuda {
namespace {

Device device_of(const Driver& driver, int ordinal) {
  Device device = 0;
  driver.device_get(&device, ordinal);
  return device;
}

Context retained(const Driver& driver, Device device) {
  Context context = nullptr;
  driver.primary_ctx_retain(&context, device);
  return context;
}

}  // namespace

std::shared_ptr<const PrimaryContext> PrimaryContext::retain(const Driver& driver, int ordinal) {
  const int count = driver.device_count();
  base::check(0 <= ordinal && ordinal < count, "device is {}, expected 0 to {}", ordinal,
              count - 1);
  return std::shared_ptr<const PrimaryContext>(new PrimaryContext(driver, ordinal));
}

PrimaryContext::PrimaryContext(const Driver& driver, int ordinal)
    : driver_(driver),
      ordinal_(ordinal),
      device_(device_of(driver, ordinal)),
      handle_(retained(driver, device_)),
      log_(driver.launches().of(handle_, ordinal)) {}

PrimaryContext::~PrimaryContext() {
  static_cast<void>(driver_.primary_ctx_release.status(device_));
}

int PrimaryContext::attribute(DeviceAttribute attribute) const {
  int value = 0;
  driver_.device_get_attribute(&value, attribute, device_);
  return value;
}

void PrimaryContext::fail_launch(const Kernel& kernel, Status status) const {
  base::fail(ErrorKind::device, "{} cannot be launched on cuda:{}: cuLaunchKernelEx failed: {}",
             kernel.name, ordinal_, driver_.texts().describe(status));
}

void PrimaryContext::launch_and_wait(const LaunchConfig& config, const Kernel& kernel,
                                     void** parameters) const {
  driver_.stream_synchronize(config.stream);
  const Status launched =
      driver_.launch_kernel.status(&config, kernel.function, parameters, nullptr);
  if (launched != Status::success) fail_launch(kernel, launched);
  const std::uint64_t number = log_.note(kernel, config);
  const Status status = driver_.stream_synchronize.status(config.stream);
  if (status == Status::success) return;
  base::fail(ErrorKind::device, "{} failed while it ran on cuda:{} ({}, launch {}): {}",
             kernel.name, ordinal_, describe_launch(config.grid_x, config.block_x, config.stream),
             number, driver_.texts().name(status));
}

void ContextGuard::pop() const {
  Context popped = nullptr;
  static_cast<void>(driver_.ctx_pop_current.status(&popped));
}

DeviceBuffer::DeviceBuffer(ContextPointer context, std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  const Driver& driver = context->driver();
  const ContextGuard guard(*context);
  DevicePointer memory = 0;
  const Status status = driver.mem_alloc.status(&memory, bytes);
  if (status == Status::out_of_memory) {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    driver.mem_get_info(&free_bytes, &total_bytes);
    base::fail(ErrorKind::out_of_capacity,
               "device {} has {} bytes free of {}, needed are {}: cuMemAlloc failed: {}",
               context->ordinal(), free_bytes, total_bytes, bytes, driver.texts().describe(status));
  }
  if (status != Status::success) driver.texts().fail(driver.mem_alloc.symbol(), status);
  memory_ = {std::move(context), memory};
}

PinnedBuffer::PinnedBuffer(ContextPointer context, std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  const ContextGuard guard(*context);
  void* memory = nullptr;
  context->driver().mem_host_alloc(&memory, bytes, kHostAllocPortable);
  memory_ = {std::move(context), memory};
}

Event::Event(ContextPointer context) {
  const ContextGuard guard(*context);
  EventHandle event = nullptr;
  context->driver().event_create(&event, kEventDisableTiming);
  event_ = {std::move(context), event};
}

void Event::record(Stream stream) const {
  const ContextGuard guard(*event_.context());
  driver().event_record(event_.get(), stream);
}

bool Event::ready() const {
  const ContextGuard guard(*event_.context());
  const Status status = driver().event_query.status(event_.get());
  if (status == Status::not_ready) return false;
  if (status != Status::success) driver().texts().fail(driver().event_query.symbol(), status);
  return true;
}

void Event::wait() const {
  const ContextGuard guard(*event_.context());
  driver().event_synchronize(event_.get());
}

DeviceModule::DeviceModule(ContextPointer context, std::span<const std::byte> code,
                           std::string name)
    : name_(std::move(name)) {
  const Driver& driver = context->driver();
  const ContextGuard guard(*context);
  Module module = nullptr;
  const Status status = driver.module_load_data.status(&module, code.data());
  if (status != Status::success) {
    base::fail(ErrorKind::device, "kernel {} cannot be loaded: cuModuleLoadData failed: {}", name_,
               driver.texts().describe(status));
  }
  module_ = {std::move(context), module};
}

Kernel DeviceModule::function(const std::string& function_name) const {
  const Driver& driver = module_.context()->driver();
  const ContextGuard guard(*module_.context());
  Function function = nullptr;
  const Status status =
      driver.module_get_function.status(&function, module_.get(), function_name.c_str());
  if (status != Status::success) {
    base::fail(ErrorKind::device, "kernel {} has no function '{}': cuModuleGetFunction failed: {}",
               name_, function_name, driver.texts().describe(status));
  }
  return {function, driver.launches().keep_name(fmt::format("{} of {}", function_name, name_))};
}

int DeviceModule::constant(const std::string& variable_name) const {
  const Driver& driver = module_.context()->driver();
  const ContextGuard guard(*module_.context());
  DevicePointer address = 0;
  std::size_t bytes = 0;
  const Status status =
      driver.module_get_global.status(&address, &bytes, module_.get(), variable_name.c_str());
  if (status != Status::success || bytes != sizeof(int)) {
    base::fail(ErrorKind::device, "kernel {} has no int '{}': cuModuleGetGlobal failed: {}", name_,
               variable_name, driver.texts().describe(status));
  }
  int value = 0;
  driver.memcpy_dtoh(&value, address, sizeof(value));
  return value;
}

}  // namespace trencadis::cuda
