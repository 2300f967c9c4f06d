// What this process can use, and the cache of compiled kernels.
#pragma once

#include <trencadis/attention.h>
#include <trencadis/attention_spec.h>

#include <cstdint>
#include <string>
#include <vector>

namespace trencadis {

struct BackendInfo {
  BackendKind kind = BackendKind::cpu;
  std::string name;
  bool available = false;
  std::string detail;  // versions, instruction sets, threads
  std::string reason;  // why it is not available; empty where it is
  std::vector<DeviceLimits> devices;
};

/// Every backend the library knows, available or not.
std::vector<BackendInfo> backends();

struct CompilerInfo {
  std::string name;  // "host", "nvrtc"
  bool available = false;
  std::string path;
  std::string version;
  std::string reason;
};

/// The host's C++ compiler ($TRENCADIS_CXX, else the usual names) and NVRTC ($TRENCADIS_LIBNVRTC,
/// else where the dynamic linker looks, in toolkits and in Python's packages), available or not.
std::vector<CompilerInfo> compilers();

struct CudaDeviceInfo {
  int ordinal = 0;
  std::string name;
  int compute_capability_major = 0;
  int compute_capability_minor = 0;
  std::int64_t memory_bytes = 0;
};

struct CudaDriverInfo {
  bool available = false;  // a driver that is new enough, with a device
  std::string path;        // of libcuda; empty where none was found
  std::string version;     // "13.0"; empty where none was found
  std::string reason;      // why it is not available; empty where it is
  std::vector<CudaDeviceInfo> devices;
};

/// NVIDIA's driver, which is opened when first asked for: $TRENCADIS_LIBCUDA where it is set, else
/// libcuda.so.1 where the dynamic linker looks. Does not throw for what it finds or misses.
CudaDriverInfo cuda_driver();

/// "" where the backend can run the spec with these heads, else why not, in words.
std::string can_implement(const AttentionSpec& spec, const AttentionConfig& config,
                          BackendKind backend);

/// Read bandwidth of this machine's memory in 1e9 bytes a second: `num_threads` threads (0: all
/// that the process may use) sum 512 MiB, the best of five passes. Takes half a second and that
/// memory. Throws Error(invalid_argument | out_of_capacity).
double measure_read_bandwidth(int num_threads = 0);

/// What a CUDA kernel takes of a multiprocessor, as its code says.
struct KernelResources {
  std::string name;               // "trencadis_attention"
  int registers = 0;              // of a thread
  std::int64_t stack_bytes = 0;   // of a thread, in device memory: spilled registers, local arrays
  std::int64_t shared_bytes = 0;  // of a CTA, static and dynamic
};

struct CompiledKernel {
  std::string name;
  std::string key;   // content key, hex
  std::string path;  // the cache entry, or "built in"
  bool from_cache = false;
  double seconds = 0.0;                    // compile time; 0 where it came from the cache
  std::vector<KernelResources> resources;  // of each kernel in it, by name; none for the host
};

/// Compiles the kernels of a spec into the cache. arch: "host", or a CUDA architecture as in
/// "sm_90a", which needs NVRTC and no device; what its kernels take is read from their code. There
/// the kernels that append, copy and merge for the spec's dtypes are compiled too; `from_cache` and
/// `seconds` are of all of them. "compute_80" is PTX, which takes nothing yet: what an engine looks
/// for on a newer device where $TRENCADIS_CUDA_ARCH asks for it.
/// Throws Error(compile_failed | not_supported | io).
CompiledKernel compile(const AttentionSpec& spec, const std::string& arch = "host");

/// The text that would be compiled: deterministic.
std::string kernel_source(const AttentionSpec& spec, const std::string& arch = "host");

struct CacheEntry {
  std::string key;
  std::string name;
  std::string compiler;
  std::int64_t bytes = 0;
  bool intact = true;   // set by verify
  std::string problem;  // why not
};

/// $TRENCADIS_CACHE_DIR, else $XDG_CACHE_HOME/trencadis, else ~/.cache/trencadis.
std::string cache_directory();
std::vector<CacheEntry> cache_list();
/// Reads every entry and compares its checksum; corrupt ones are reported, not removed.
std::vector<CacheEntry> cache_verify();
/// Removes every entry; returns how many.
std::int64_t cache_clear();

}  // namespace trencadis
