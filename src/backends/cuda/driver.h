// The CUDA driver, opened at run time: the library loads, and the CPU works, on a machine without.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/driver_api.h"
#include "backends/cuda/launch_log.h"
#include "base/dynamic_library.h"

namespace trencadis::cuda {

/// What the driver calls a status: "CUDA_ERROR_NOT_FOUND (named symbol not found)".
class StatusTexts {
 public:
  StatusTexts(const base::DynamicLibrary& library, const LaunchLogs& logs);

  /// Of a kernel's fault also the launches that may have caused it: the last into the context that
  /// is current.
  std::string describe(Status status) const;
  std::string name(Status status) const;

  /// Throws Error(device): "cuLaunchKernelEx failed: CUDA_ERROR_... (text)".
  [[noreturn]] void fail(const char* call, Status status) const;

 private:
  using Query = Status(Status status, const char** text);
  Query* name_;
  Query* text_;
  Status (*current_context_)(Context*);
  const LaunchLogs& logs_;
};

/// Throws Error(not_supported) unless `found`.
void require_function(const base::DynamicLibrary& library, const char* symbol, bool found);

template <class Signature>
class Call;

/// One function of the driver. Called as a function it checks the status; there is no other way to
/// call it and lose one.
template <class... Args>
class Call<Status(Args...)> {
 public:
  /// Throws Error(not_supported) where the library has no such function.
  Call(const base::DynamicLibrary& library, const StatusTexts& texts, const char* symbol)
      : texts_(texts), symbol_(symbol), function_(library.function<Status(Args...)>(symbol)) {
    require_function(library, symbol, function_ != nullptr);
  }

  /// Throws Error(device) that names the call and its status.
  void operator()(Args... args) const {
    if (const Status result = function_(args...); result != Status::success) [[unlikely]]
      texts_.fail(symbol_, result);
  }

  /// The status itself, for the calls where another than success is an answer, and for destructors.
  [[nodiscard]] Status status(Args... args) const noexcept { return function_(args...); }

  const char* symbol() const noexcept { return symbol_; }

 private:
  const StatusTexts& texts_;
  const char* symbol_;
  Status (*function_)(Args...);
};

/// The driver's functions, by their names in cuda.h without the cu. Initialised. Safe for any
/// number of threads, as the driver is.
class Driver {
  base::DynamicLibrary library_;
  mutable LaunchLogs launches_;
  StatusTexts texts_;

  template <class Signature>
  struct Bound : Call<Signature> {
    Bound(const Driver& driver, const char* symbol)
        : Call<Signature>(driver.library_, driver.texts_, symbol) {}
  };

 public:
  /// Opens $TRENCADIS_LIBCUDA where it is set, else libcuda.so.1 where the dynamic linker looks.
  /// Throws Error(not_supported): there is none, it is older than version 12.0, or it finds no
  /// device; the text says what was searched, found and needed.
  static std::unique_ptr<const Driver> open();

  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  const std::string& path() const noexcept { return library_.path(); }
  const StatusTexts& texts() const noexcept { return texts_; }
  /// What was launched through this object; errors tell of it.
  LaunchLogs& launches() const noexcept { return launches_; }

  /// A function beyond the table, for what few programs ask for. Throws Error(not_supported) where
  /// the driver lacks it.
  template <class Signature>
  Call<Signature> function(const char* symbol) const {
    return {library_, texts_, symbol};
  }

  /// As CUDA counts: 12040 is 12.4.
  int version() const;
  int device_count() const;

  // The rest is the table. Versioned symbols are named as they are: a plain name means the
  // interface of CUDA 3, kept for old programs.
  Bound<Status(unsigned flags)> init{*this, "cuInit"};
  Bound<Status(int* version)> driver_get_version{*this, "cuDriverGetVersion"};

  Bound<Status(int* count)> device_get_count{*this, "cuDeviceGetCount"};
  Bound<Status(Device*, int ordinal)> device_get{*this, "cuDeviceGet"};
  Bound<Status(char* name, int bytes, Device)> device_get_name{*this, "cuDeviceGetName"};
  Bound<Status(int* value, DeviceAttribute, Device)> device_get_attribute{*this,
                                                                          "cuDeviceGetAttribute"};
  Bound<Status(std::size_t* bytes, Device)> device_total_mem{*this, "cuDeviceTotalMem_v2"};

  Bound<Status(Context*, Device)> primary_ctx_retain{*this, "cuDevicePrimaryCtxRetain"};
  Bound<Status(Device)> primary_ctx_release{*this, "cuDevicePrimaryCtxRelease_v2"};
  Bound<Status(Context*)> ctx_get_current{*this, "cuCtxGetCurrent"};
  Bound<Status(Context)> ctx_push_current{*this, "cuCtxPushCurrent_v2"};
  Bound<Status(Context*)> ctx_pop_current{*this, "cuCtxPopCurrent_v2"};

  Bound<Status(Module*, const void* image)> module_load_data{*this, "cuModuleLoadData"};
  Bound<Status(Module)> module_unload{*this, "cuModuleUnload"};
  Bound<Status(Function*, Module, const char* name)> module_get_function{*this,
                                                                         "cuModuleGetFunction"};

  Bound<Status(DevicePointer*, std::size_t* bytes, Module, const char* name)> module_get_global{
      *this, "cuModuleGetGlobal_v2"};

  Bound<Status(Function, FunctionAttribute, int value)> func_set_attribute{*this,
                                                                           "cuFuncSetAttribute"};
  Bound<Status(int* value, FunctionAttribute, Function)> func_get_attribute{*this,
                                                                            "cuFuncGetAttribute"};
  Bound<Status(int* blocks, Function, int block_threads, std::size_t dynamic_shared_bytes)>
      occupancy_max_active_blocks{*this, "cuOccupancyMaxActiveBlocksPerMultiprocessor"};
  Bound<Status(const LaunchConfig*, Function, void** parameters, void** extra)> launch_kernel{
      *this, "cuLaunchKernelEx"};

  Bound<Status(DevicePointer*, std::size_t bytes)> mem_alloc{*this, "cuMemAlloc_v2"};
  Bound<Status(DevicePointer)> mem_free{*this, "cuMemFree_v2"};
  Bound<Status(std::size_t* free, std::size_t* total)> mem_get_info{*this, "cuMemGetInfo_v2"};
  Bound<Status(void**, std::size_t bytes, unsigned flags)> mem_host_alloc{*this, "cuMemHostAlloc"};
  Bound<Status(void*)> mem_free_host{*this, "cuMemFreeHost"};
  Bound<Status(DevicePointer to, const void* from, std::size_t bytes, Stream)> memcpy_htod_async{
      *this, "cuMemcpyHtoDAsync_v2"};
  Bound<Status(void* to, DevicePointer from, std::size_t bytes, Stream)> memcpy_dtoh_async{
      *this, "cuMemcpyDtoHAsync_v2"};
  Bound<Status(void* to, DevicePointer from, std::size_t bytes)> memcpy_dtoh{*this,
                                                                             "cuMemcpyDtoH_v2"};
  Bound<Status(DevicePointer, unsigned char value, std::size_t bytes, Stream)> memset_d8_async{
      *this, "cuMemsetD8Async"};
  Bound<Status(void* value, PointerAttribute, DevicePointer)> pointer_get_attribute{
      *this, "cuPointerGetAttribute"};

  Bound<Status(Stream, CaptureStatus*)> stream_is_capturing{*this, "cuStreamIsCapturing"};
  Bound<Status(Stream)> stream_synchronize{*this, "cuStreamSynchronize"};

  Bound<Status(EventHandle*, unsigned flags)> event_create{*this, "cuEventCreate"};
  Bound<Status(EventHandle)> event_destroy{*this, "cuEventDestroy_v2"};
  Bound<Status(EventHandle, Stream)> event_record{*this, "cuEventRecord"};
  Bound<Status(EventHandle)> event_query{*this, "cuEventQuery"};
  Bound<Status(EventHandle)> event_synchronize{*this, "cuEventSynchronize"};

 private:
  explicit Driver(base::DynamicLibrary library)
      : library_(std::move(library)), texts_(library_, launches_) {}
};

/// The process's driver, opened when first asked for and never closed. Throws as Driver::open, and
/// looks anew at the next call.
const Driver& driver();

struct DeviceDescription {
  int ordinal = 0;
  std::string name;
  int major = 0, minor = 0;       // compute capability
  std::int64_t memory_bytes = 0;  // of the device
};

struct DriverDescription {
  bool available = false;  // a driver that is new enough, with a device
  std::string path;        // empty: none was found
  std::string version;     // "13.0"; empty: none was found
  std::string reason;      // why it is not available; empty where it is
  std::vector<DeviceDescription> devices;
};

/// What is here, without a word of the driver thrown. Creates no context.
DriverDescription describe_driver();

}  // namespace trencadis::cuda
