// The driver's ABI as the library declares it, against NVIDIA's header.
#include "backends/cuda/driver_api.h"

#include <cuda.h>
#include <gtest/gtest.h>

#include <type_traits>

namespace trencadis::cuda {
namespace {

template <class Ours, class Theirs>
constexpr bool same(Ours ours, Theirs theirs) {
  static_assert(sizeof(Ours) == sizeof(Theirs));
  return static_cast<long>(ours) == static_cast<long>(theirs);
}

static_assert(same(Status::success, CUDA_SUCCESS));
static_assert(same(Status::invalid_value, CUDA_ERROR_INVALID_VALUE));
static_assert(same(Status::out_of_memory, CUDA_ERROR_OUT_OF_MEMORY));
static_assert(same(Status::not_initialized, CUDA_ERROR_NOT_INITIALIZED));
static_assert(same(Status::deinitialized, CUDA_ERROR_DEINITIALIZED));
static_assert(same(Status::stub_library, CUDA_ERROR_STUB_LIBRARY));
static_assert(same(Status::no_device, CUDA_ERROR_NO_DEVICE));
static_assert(same(Status::invalid_device, CUDA_ERROR_INVALID_DEVICE));
static_assert(same(Status::invalid_image, CUDA_ERROR_INVALID_IMAGE));
static_assert(same(Status::invalid_context, CUDA_ERROR_INVALID_CONTEXT));
static_assert(same(Status::no_binary_for_gpu, CUDA_ERROR_NO_BINARY_FOR_GPU));
static_assert(same(Status::not_found, CUDA_ERROR_NOT_FOUND));
static_assert(same(Status::not_ready, CUDA_ERROR_NOT_READY));
static_assert(same(Status::illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS));
static_assert(same(Status::launch_out_of_resources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES));
static_assert(same(Status::launch_timeout, CUDA_ERROR_LAUNCH_TIMEOUT));
static_assert(same(Status::assert_failed, CUDA_ERROR_ASSERT));
static_assert(same(Status::hardware_stack_error, CUDA_ERROR_HARDWARE_STACK_ERROR));
static_assert(same(Status::illegal_instruction, CUDA_ERROR_ILLEGAL_INSTRUCTION));
static_assert(same(Status::misaligned_address, CUDA_ERROR_MISALIGNED_ADDRESS));
static_assert(same(Status::invalid_address_space, CUDA_ERROR_INVALID_ADDRESS_SPACE));
static_assert(same(Status::invalid_pc, CUDA_ERROR_INVALID_PC));
static_assert(same(Status::launch_failed, CUDA_ERROR_LAUNCH_FAILED));
static_assert(same(Status::stream_capture_unsupported, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED));

using D = DeviceAttribute;
static_assert(same(D::max_threads_per_block, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
static_assert(same(D::max_shared_memory_per_block,
                   CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK));
static_assert(same(D::warp_size, CU_DEVICE_ATTRIBUTE_WARP_SIZE));
static_assert(same(D::clock_rate, CU_DEVICE_ATTRIBUTE_CLOCK_RATE));
static_assert(same(D::multiprocessor_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
static_assert(same(D::memory_clock_rate, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE));
static_assert(same(D::global_memory_bus_width, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH));
static_assert(same(D::l2_cache_size, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE));
static_assert(same(D::max_threads_per_multiprocessor,
                   CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR));
static_assert(same(D::compute_capability_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
static_assert(same(D::compute_capability_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
static_assert(same(D::max_shared_memory_per_multiprocessor,
                   CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR));
static_assert(same(D::max_registers_per_multiprocessor,
                   CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR));
static_assert(same(D::max_shared_memory_per_block_optin,
                   CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));

using F = FunctionAttribute;
static_assert(same(F::max_threads_per_block, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
static_assert(same(F::shared_size_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
static_assert(same(F::const_size_bytes, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES));
static_assert(same(F::local_size_bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
static_assert(same(F::num_regs, CU_FUNC_ATTRIBUTE_NUM_REGS));
static_assert(same(F::max_dynamic_shared_size_bytes,
                   CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES));
static_assert(same(F::preferred_shared_memory_carveout,
                   CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT));

static_assert(same(PointerAttribute::memory_type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE));
static_assert(same(PointerAttribute::device_ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL));
static_assert(same(MemoryType::host, CU_MEMORYTYPE_HOST));
static_assert(same(MemoryType::device, CU_MEMORYTYPE_DEVICE));
static_assert(same(MemoryType::array, CU_MEMORYTYPE_ARRAY));
static_assert(same(MemoryType::unified, CU_MEMORYTYPE_UNIFIED));
static_assert(same(CaptureStatus::none, CU_STREAM_CAPTURE_STATUS_NONE));
static_assert(same(CaptureStatus::active, CU_STREAM_CAPTURE_STATUS_ACTIVE));
static_assert(same(CaptureStatus::invalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED));
static_assert(kEventDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(kHostAllocPortable == CU_MEMHOSTALLOC_PORTABLE);

using L = LaunchAttributeId;
static_assert(same(L::cooperative, CU_LAUNCH_ATTRIBUTE_COOPERATIVE));
static_assert(same(L::cluster_dimension, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION));
static_assert(same(L::programmatic_stream_serialization,
                   CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION));

static_assert(std::is_same_v<Device, CUdevice>);
static_assert(sizeof(DevicePointer) == sizeof(CUdeviceptr));
static_assert(sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute));
static_assert(offsetof(LaunchAttribute, value) == offsetof(CUlaunchAttribute, value));
static_assert(offsetof(CUlaunchAttributeValue, clusterDim) == 0);
static_assert(sizeof(LaunchConfig) == sizeof(CUlaunchConfig));
static_assert(offsetof(LaunchConfig, grid_x) == offsetof(CUlaunchConfig, gridDimX));
static_assert(offsetof(LaunchConfig, block_x) == offsetof(CUlaunchConfig, blockDimX));
static_assert(offsetof(LaunchConfig, dynamic_shared_bytes) ==
              offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(LaunchConfig, num_attributes) == offsetof(CUlaunchConfig, numAttrs));

TEST(DriverApi, AgreesWithTheHeaderOfTheToolkit) {
  SUCCEED() << "the file compiles";
}

}  // namespace
}  // namespace trencadis::cuda
