// A CUDA driver none of whose calls does anything, for $TRENCADIS_LIBCUDA: what a benchmark of the
// CUDA backend measures over it is the library's own time. One device of compute capability 9.0,
// as large as an H200; copies copy nothing, launches run nothing, every event is done.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#define FREE_API extern "C" __attribute__((visibility("default")))
#define FREE_CALL(name) \
  FREE_API int name() { \
    return 0;           \
  }

namespace {
char object;          // what every handle points to
int constant = 1024;  // the value of every global of a module

int attribute_of(int attribute) {
  switch (attribute) {
    case 1:  // threads of a CTA
      return 1024;
    case 8:  // bytes of shared memory of a CTA, without asking for more
      return 48 << 10;
    case 10:  // warp
      return 32;
    case 13:  // kHz
      return 1980000;
    case 16:  // multiprocessors
      return 132;
    case 36:  // kHz of the memory
      return 3201000;
    case 37:  // bits of its bus
      return 6016;
    case 38:  // bytes of L2
      return 60 << 20;
    case 39:  // threads of a multiprocessor
      return 2048;
    case 75:  // compute capability, major
      return 9;
    case 81:  // bytes of shared memory of a multiprocessor
      return 228 << 10;
    case 82:  // its registers
      return 65536;
    case 97:  // bytes of shared memory of a CTA that asks for them
      return 227 << 10;
    default:
      return 0;
  }
}
}  // namespace

FREE_API int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
FREE_API int cuDeviceGetCount(int* count) {
  *count = 1;
  return 0;
}
FREE_API int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}
FREE_API int cuDeviceGetName(char* name, int, int) {
  *name = '\0';
  return 0;
}
FREE_API int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute_of(attribute);
  return 0;
}
FREE_API int cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  *bytes = std::size_t{141} << 30;
  return 0;
}
FREE_API int cuDevicePrimaryCtxRetain(void** context, int) {
  *context = &object;
  return 0;
}
/// As in a program that uses the device by other means too.
FREE_API int cuCtxGetCurrent(void** context) {
  *context = &object;
  return 0;
}
FREE_API int cuModuleLoadData(void** module, const void*) {
  *module = &object;
  return 0;
}
FREE_API int cuModuleGetFunction(void** function, void*, const char*) {
  *function = &object;
  return 0;
}
FREE_API int cuModuleGetGlobal_v2(std::uint64_t* pointer, std::size_t* bytes, void*, const char*) {
  *pointer = reinterpret_cast<std::uint64_t>(&constant);
  *bytes = sizeof constant;
  return 0;
}
FREE_API int cuFuncGetAttribute(int* value, int, void*) {
  *value = 0;
  return 0;
}
FREE_API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void*, int, std::size_t) {
  *blocks = 2;
  return 0;
}
/// Addresses that nothing reads: as far as the library knows, those of a device.
FREE_API int cuMemAlloc_v2(std::uint64_t* pointer, std::size_t) {
  *pointer = std::uint64_t{1} << 40;
  return 0;
}
FREE_API int cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total) {
  *free_bytes = *total = std::size_t{141} << 30;
  return 0;
}
FREE_API int cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  constexpr std::size_t kPage = 4096;
  *pointer = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  return *pointer == nullptr ? 2 : 0;
}
FREE_API int cuMemFreeHost(void* pointer) {
  std::free(pointer);
  return 0;
}
FREE_API int cuMemcpyDtoH_v2(void* to, std::uint64_t from, std::size_t bytes) {
  if (from != reinterpret_cast<std::uint64_t>(&constant) || bytes != sizeof constant) return 1;
  *static_cast<int*>(to) = constant;
  return 0;
}
FREE_API int cuStreamIsCapturing(void*, int* status) {
  *status = 0;
  return 0;
}
FREE_API int cuEventCreate(void** event, unsigned) {
  *event = &object;
  return 0;
}
FREE_API int cuGetErrorName(int, const char** name) {
  *name = "an error of the free driver";
  return 0;
}
FREE_API int cuGetErrorString(int, const char** text) {
  *text = "see benchmarks/free_driver";
  return 0;
}

FREE_CALL(cuInit)
FREE_CALL(cuDevicePrimaryCtxRelease_v2)
FREE_CALL(cuCtxPushCurrent_v2)
FREE_CALL(cuCtxPopCurrent_v2)
FREE_CALL(cuModuleUnload)
FREE_CALL(cuFuncSetAttribute)
FREE_CALL(cuLaunchKernelEx)
FREE_CALL(cuMemFree_v2)
FREE_CALL(cuMemcpyHtoDAsync_v2)
FREE_CALL(cuMemcpyDtoHAsync_v2)
FREE_CALL(cuMemsetD8Async)
FREE_CALL(cuPointerGetAttribute)
FREE_CALL(cuStreamSynchronize)
FREE_CALL(cuEventDestroy_v2)
FREE_CALL(cuEventRecord)
FREE_CALL(cuEventQuery)
FREE_CALL(cuEventSynchronize)
