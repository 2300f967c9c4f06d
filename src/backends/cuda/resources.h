// What the driver hands out, with an owner: contexts, memory, events, code. Each object knows the
// context that it belongs to and is released in it, whichever is current then.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "backends/cuda/driver.h"

namespace trencadis::cuda {

/// The primary context of a device, which the process's CUDA libraries share. Retained while the
/// object lives.
class PrimaryContext {
 public:
  /// Throws Error(invalid_argument) where there is no such device; Error(device).
  static std::shared_ptr<const PrimaryContext> retain(const Driver& driver, int ordinal);

  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;
  ~PrimaryContext();

  const Driver& driver() const noexcept { return driver_; }
  int ordinal() const noexcept { return ordinal_; }
  Context handle() const noexcept { return handle_; }

  /// Throws Error(device).
  int attribute(DeviceAttribute attribute) const;

  /// Whether the stream is being captured into a graph. This context is current.
  bool is_capturing(Stream stream) const {
    CaptureStatus status = CaptureStatus::none;
    driver_.stream_is_capturing(stream, &status);
    return status != CaptureStatus::none;
  }

  /// Launches and notes it, for the errors of later calls (launch_log.h). This context is current.
  /// Throws Error(device) that names the kernel.
  void launch(const LaunchConfig& config, const Kernel& kernel, void** parameters) const {
    const Status status =
        driver_.launch_kernel.status(&config, kernel.function, parameters, nullptr);
    if (status != Status::success) [[unlikely]]
      fail_launch(kernel, status);
    log_.note(kernel, config);
  }

  /// The debug mode's: waits for the stream before and after, so that what fails is this launch.
  /// Not for streams that are being captured. Throws Error(device) that names kernel, grid, stream
  /// and the launch's number on this device, or says that it was something before.
  void launch_and_wait(const LaunchConfig& config, const Kernel& kernel, void** parameters) const;

 private:
  PrimaryContext(const Driver& driver, int ordinal);
  [[noreturn]] void fail_launch(const Kernel& kernel, Status status) const;

  const Driver& driver_;
  int ordinal_;
  Device device_;
  Context handle_;
  LaunchLog& log_;
};

using ContextPointer = std::shared_ptr<const PrimaryContext>;

/// Makes a context current in this thread for the length of a scope, and the one before it again
/// after. A context that is current already, as it is in most programs, is only asked for: one call
/// of the driver that reads a variable of the thread, in place of two that change its stack.
class ContextGuard {
 public:
  /// Throws Error(device).
  explicit ContextGuard(const PrimaryContext& context) : driver_(context.driver()) {
    Context current = nullptr;
    driver_.ctx_get_current(&current);
    if (current == context.handle()) return;
    driver_.ctx_push_current(context.handle());
    pushed_ = true;
  }
  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;
  ~ContextGuard() {
    if (pushed_) pop();
  }

 private:
  void pop() const;

  const Driver& driver_;
  bool pushed_ = false;
};

/// An object of the driver with its context; `release` is called once, in that context. Failures of
/// a release have nowhere to go: at the end of a process they only say that the driver left first.
template <class Handle, Status (*release)(const Driver&, Handle)>
class Owned {
 public:
  Owned() = default;
  Owned(ContextPointer context, Handle handle) : context_(std::move(context)), handle_(handle) {}
  Owned(Owned&& other) noexcept
      : context_(std::move(other.context_)), handle_(std::exchange(other.handle_, Handle{})) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_ == Handle{}) return;
    const Driver& driver = context_->driver();
    if (driver.ctx_push_current.status(context_->handle()) != Status::success) return;
    static_cast<void>(release(driver, handle_));
    Context popped = nullptr;
    static_cast<void>(driver.ctx_pop_current.status(&popped));
  }

  Handle get() const noexcept { return handle_; }
  const ContextPointer& context() const noexcept { return context_; }

 private:
  ContextPointer context_;
  Handle handle_{};
};

/// Memory of a device.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  /// Uninitialised; no allocation for 0 bytes. Throws Error(out_of_capacity) that states needed and
  /// free bytes; Error(device).
  DeviceBuffer(ContextPointer context, std::size_t bytes);

  DevicePointer get() const noexcept { return memory_.get(); }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  static Status release(const Driver& driver, DevicePointer memory) {
    return driver.mem_free.status(memory);
  }

  Owned<DevicePointer, release> memory_;
  std::size_t bytes_ = 0;
};

/// Memory of the host that copies run from without a stop: pinned, for every context.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  /// Uninitialised; no allocation for 0 bytes. Throws Error(device).
  PinnedBuffer(ContextPointer context, std::size_t bytes);

  std::byte* data() const noexcept { return static_cast<std::byte*>(memory_.get()); }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  static Status release(const Driver& driver, void* memory) {
    return driver.mem_free_host.status(memory);
  }

  Owned<void*, release> memory_;
  std::size_t bytes_ = 0;
};

/// A point in a stream. Without timing, which makes it cheaper.
class Event {
 public:
  /// Throws Error(device), as all members.
  explicit Event(ContextPointer context);

  void record(Stream stream) const;
  /// True once everything before the last record() is done, and before the first.
  bool ready() const;
  /// Blocks this thread until ready().
  void wait() const;

 private:
  static Status release(const Driver& driver, EventHandle event) {
    return driver.event_destroy.status(event);
  }
  const Driver& driver() const { return event_.context()->driver(); }

  Owned<EventHandle, release> event_;
};

/// Device code, loaded into one context.
class DeviceModule {
 public:
  /// code: a cubin, or PTX that ends in a zero. `name` is for messages. Throws Error(device) that
  /// names the kernel: the code was made for another architecture, for example.
  DeviceModule(ContextPointer context, std::span<const std::byte> code, std::string name);

  /// Valid as long as the module. Throws Error(device) that names kernel and function.
  Kernel function(const std::string& function_name) const;

  /// The value of a global int of the module. Throws Error(device) that names kernel and variable.
  int constant(const std::string& variable_name) const;

 private:
  static Status release(const Driver& driver, Module module) {
    return driver.module_unload.status(module);
  }

  Owned<Module, release> module_;
  std::string name_;
};

}  // namespace trencadis::cuda
