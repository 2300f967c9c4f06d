// The part of the CUDA driver's C interface that the library uses, declared here because cuda.h
// comes with the toolkit and the library is built and run without one. The values are those of
// cuda.h, which are the driver's ABI and do not change; a test compares them where a toolkit is
// present.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trencadis::cuda {

/// CUresult: those that the library tells apart. The driver may return others.
enum class Status : int {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  deinitialized = 4,
  stub_library = 34,
  no_device = 100,
  invalid_device = 101,
  invalid_image = 200,
  invalid_context = 201,
  no_binary_for_gpu = 209,
  not_found = 500,
  not_ready = 600,
  illegal_address = 700,
  launch_out_of_resources = 701,
  launch_timeout = 702,
  assert_failed = 710,
  hardware_stack_error = 714,
  illegal_instruction = 715,
  misaligned_address = 716,
  invalid_address_space = 717,
  invalid_pc = 718,
  launch_failed = 719,
  stream_capture_unsupported = 900,
};

/// Whether a kernel failed while it ran. The driver says so at whichever call comes next, and at
/// all that follow: the context is lost.
constexpr bool is_kernel_fault(Status status) {
  switch (status) {
    case Status::illegal_address:
    case Status::launch_timeout:
    case Status::assert_failed:
    case Status::hardware_stack_error:
    case Status::illegal_instruction:
    case Status::misaligned_address:
    case Status::invalid_address_space:
    case Status::invalid_pc:
    case Status::launch_failed:
      return true;
    default:
      return false;
  }
}

using Device = int;                    // CUdevice
using DevicePointer = std::uint64_t;   // CUdeviceptr
using Context = struct ContextTag*;    // CUcontext
using Module = struct ModuleTag*;      // CUmodule
using Function = struct FunctionTag*;  // CUfunction
using Stream = struct StreamTag*;      // CUstream; null: the legacy default stream
using EventHandle = struct EventTag*;  // CUevent

/// CUdevice_attribute
enum class DeviceAttribute : int {
  max_threads_per_block = 1,
  max_shared_memory_per_block = 8,  // bytes, without asking for more
  warp_size = 10,
  clock_rate = 13,  // kHz
  multiprocessor_count = 16,
  memory_clock_rate = 36,        // kHz
  global_memory_bus_width = 37,  // bits
  l2_cache_size = 38,            // bytes
  max_threads_per_multiprocessor = 39,
  compute_capability_major = 75,
  compute_capability_minor = 76,
  max_shared_memory_per_multiprocessor = 81,  // bytes
  max_registers_per_multiprocessor = 82,      // of 32 bits
  max_shared_memory_per_block_optin = 97,     // bytes, where a function asks for them
};

/// CUfunction_attribute
enum class FunctionAttribute : int {
  max_threads_per_block = 0,
  shared_size_bytes = 1,  // static
  const_size_bytes = 2,
  local_size_bytes = 3,  // a thread's stack: spills
  num_regs = 4,
  max_dynamic_shared_size_bytes = 8,
  preferred_shared_memory_carveout = 9,  // percent
};

/// CUpointer_attribute
enum class PointerAttribute : int { memory_type = 2, device_ordinal = 9 };

/// CUmemorytype, as PointerAttribute::memory_type gives it (an unsigned int)
enum class MemoryType : unsigned { host = 1, device = 2, array = 3, unified = 4 };

/// CUstreamCaptureStatus
enum class CaptureStatus : int { none = 0, active = 1, invalidated = 2 };

/// Flags of cuEventCreate and cuMemHostAlloc.
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kHostAllocPortable = 1;  // pinned for every context

/// CUlaunchAttributeID
enum class LaunchAttributeId : int {
  cooperative = 2,
  cluster_dimension = 4,
  programmatic_stream_serialization = 6,
};

/// CUlaunchAttribute. The value is a union of 64 bytes; these are the members in use.
struct LaunchAttribute {
  LaunchAttributeId id;
  std::uint32_t padding = 0;
  union Value {
    char bytes[64];
    int flag;  // cooperative, programmatic_stream_serialization: 1 is on
    struct {
      unsigned x, y, z;
    } cluster;  // CTAs
  } value = {};
};
static_assert(sizeof(LaunchAttribute) == 72 && offsetof(LaunchAttribute, value) == 8);

/// CUlaunchConfig
struct LaunchConfig {
  unsigned grid_x = 1, grid_y = 1, grid_z = 1;     // CTAs
  unsigned block_x = 1, block_y = 1, block_z = 1;  // threads
  unsigned dynamic_shared_bytes = 0;
  Stream stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned num_attributes = 0;
};
static_assert(sizeof(LaunchConfig) == 56 && offsetof(LaunchConfig, stream) == 32);

}  // namespace trencadis::cuda
