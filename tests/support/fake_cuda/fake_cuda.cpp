// The library that fake_cuda.h describes. Types are written as the ABI has them, from cuda.h's
// documentation and not from the header under test.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#define FAKE_API extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kDevices = 2;

/// Of each device.
std::size_t device_bytes() {
  const char* chosen = std::getenv("TRENCADIS_FAKE_CUDA_MIB");
  return static_cast<std::size_t>(chosen == nullptr ? 64 : std::atoll(chosen)) << 20;
}

constexpr int kSuccess = 0;
constexpr int kInvalidValue = 1;
constexpr int kNoBinary = 209;
constexpr int kOutOfMemory = 2;
constexpr int kInvalidDevice = 101;
constexpr int kInvalidContext = 201;
constexpr int kInvalidHandle = 400;
constexpr int kNotFound = 500;
constexpr int kNotReady = 600;
constexpr int kCaptureUnsupported = 900;
constexpr int kCaptureInvalidated = 901;
constexpr int kPoison = 0xff;

struct Text {
  int status;
  const char* name;
  const char* text;
};
constexpr std::array kTexts = {
    Text{0, "CUDA_SUCCESS", "no error"},
    Text{1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    Text{2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    Text{100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    Text{101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    Text{201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    Text{209, "CUDA_ERROR_NO_BINARY_FOR_GPU",
         "no kernel image is available for execution on the device"},
    Text{400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    Text{500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    Text{600, "CUDA_ERROR_NOT_READY", "device not ready"},
    Text{700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    Text{719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    Text{900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
         "operation not permitted when stream is capturing"},
    Text{901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
         "operation failed due to a previous error during capture"},
};

const Text* find_text(int status) {
  for (const Text& text : kTexts)
    if (text.status == status) return &text;
  return nullptr;
}

struct FakeContext {
  int device;
  std::atomic<int> fault = 0;  // of a kernel that ran: what every call returns since
};
std::array<FakeContext, kDevices> contexts{FakeContext{0}, FakeContext{1}};

thread_local std::vector<FakeContext*> current;

/// Of the latest record: numbers of records, so that one that is overtaken by another never makes
/// the event look done.
struct Event {
  std::uint64_t issued = 0;
  std::uint64_t done = 0;
  void* stream = nullptr;
  std::chrono::steady_clock::time_point at;  // which the stream came to the latest record
  bool ready() const { return done == issued; }
};

struct Operation {
  std::function<void()> run;
  const void* reads = nullptr;  // pinned memory, of a copy
};

}  // namespace

struct FakeGraph {
  std::vector<Operation> operations;
};

namespace {

struct Stream {
  FakeContext* context = nullptr;  // null: of any, as those that tests make of addresses
  bool held = false;
  std::deque<Operation> queue;
  FakeGraph* capture = nullptr;
  bool invalidated = false;
};

using Kernel = void(const char*, unsigned, unsigned, unsigned, void**, void*);
struct RegisteredKernel {
  std::vector<std::size_t> parameter_sizes;
  Kernel* kernel = nullptr;
  void* user = nullptr;
};

struct Function {
  std::string name;
  FakeContext* context;
};
struct Module {
  std::string text;
  FakeContext* context;
  std::map<std::string, Function> functions;
};

struct DeviceMemory {
  std::size_t bytes;
  int device;
};

struct State {
  std::recursive_mutex mutex;
  std::map<std::string, int> failures;
  std::map<std::string, int> counts;
  std::map<int, int> attributes = {{1, 1024},   {8, 49152},   {10, 32},      {16, 132},
                                   {39, 2048},  {75, 9},      {76, 0},       {81, 233472},
                                   {82, 65536}, {97, 232448}, {38, 52428800}};
  std::map<std::pair<int, int>, int> attributes_of;  // of a device, instead of those of all
  std::map<std::string, int> faults;                 // of kernels, by function
  std::map<std::string, int> globals;
  std::map<std::string, RegisteredKernel> kernels;
  std::map<void*, DeviceMemory> device_memory;
  std::map<void*, std::size_t> pinned_memory;
  std::map<void*, Stream> streams;
  std::map<void*, std::shared_ptr<Event>> events;
  std::vector<std::unique_ptr<FakeGraph>> graphs;
};

State& state() {
  static State instance;
  return instance;
}

/// The status that a call is programmed to return; 0: it works.
int planned(const char* call) {
  if (const char* text = std::getenv("TRENCADIS_FAKE_CUDA_FAIL")) {
    const std::string plan = text;
    const std::size_t equals = plan.find('=');
    if (plan.substr(0, equals) == call) return std::atoi(plan.c_str() + equals + 1);
  }
  const std::lock_guard lock(state().mutex);
  ++state().counts[call];
  const auto found = state().failures.find(call);
  return found == state().failures.end() ? kSuccess : found->second;
}

/// Of the context that is current.
int fault() {
  return current.empty() ? kSuccess : current.back()->fault.load();
}

int planned_in_context(const char* call) {
  if (const int status = planned(call)) return status;
  return current.empty() ? kInvalidContext : fault();
}

/// A null handle is the default stream of the context that is current.
Stream& stream_of(void* handle) {
  if (handle == nullptr) handle = current.empty() ? contexts.data() : current.back();
  return state().streams[handle];
}

/// Whether a call on the stream may be made in the context that is current.
bool is_ours(const Stream& stream) {
  return stream.context == nullptr || stream.context == current.back();
}

void change(const char* what, int by) {
  const std::lock_guard lock(state().mutex);
  state().counts[what] += by;
}

int attribute_of(int device, int attribute) {
  const std::lock_guard lock(state().mutex);
  const auto own = state().attributes_of.find({device, attribute});
  if (own != state().attributes_of.end()) return own->second;
  const auto found = state().attributes.find(attribute);
  return found == state().attributes.end() ? 0 : found->second;
}

/// Whether a device runs a cubin: of its major version, and of no later minor one.
bool runs(int device, const char* cubin) {
  constexpr int kFlagsOffset = 48, kAbiVersionOffset = 8;
  std::uint32_t flags = 0;
  std::memcpy(&flags, cubin + kFlagsOffset, sizeof flags);
  // Where the compiler is of CUDA 13 the architecture is in the second byte, before in the first.
  const int architecture =
      static_cast<int>((cubin[kAbiVersionOffset] >= 8 ? flags >> 8 : flags) & 0xff);
  return architecture / 10 == attribute_of(device, 75) &&
         architecture % 10 <= attribute_of(device, 76);
}

std::size_t used_bytes() {
  std::size_t sum = 0;
  for (const auto& [address, memory] : state().device_memory)
    if (memory.device == current.back()->device) sum += memory.bytes;
  return sum;
}

/// The allocation that an address lies in; null for the host's.
const DeviceMemory* find_memory(const void* address) {
  auto after = state().device_memory.upper_bound(const_cast<void*>(address));
  if (after == state().device_memory.begin()) return nullptr;
  const auto& [begin, memory] = *std::prev(after);
  return static_cast<const char*>(address) < static_cast<const char*>(begin) + memory.bytes
             ? &memory
             : nullptr;
}

/// The driver lets it pass; an engine whose device this is has no reason to do it.
void expect_own_memory(const void* address) {
  const std::lock_guard lock(state().mutex);
  const DeviceMemory* const memory = find_memory(address);
  if (memory != nullptr && memory->device != current.back()->device)
    ++state().counts["memory of another device"];
}

void run_first(Stream& stream) {
  const Operation operation = std::move(stream.queue.front());
  stream.queue.pop_front();
  operation.run();
}

void drain(Stream& stream) {
  while (!stream.queue.empty()) run_first(stream);
}

void enqueue(Stream& stream, Operation operation) {
  if (stream.held)
    stream.queue.push_back(std::move(operation));
  else
    operation.run();
}

/// For what must not happen on a stream that is captured.
int enqueue_uncaptured(void* handle, Operation operation) {
  const std::lock_guard lock(state().mutex);
  Stream& stream = stream_of(handle);
  if (!is_ours(stream)) return kInvalidHandle;
  if (stream.capture != nullptr) {
    stream.invalidated = true;
    return kCaptureUnsupported;
  }
  enqueue(stream, std::move(operation));
  return kSuccess;
}

/// For what must not happen while any stream is captured.
int forbidden_by_capture() {
  const std::lock_guard lock(state().mutex);
  int status = kSuccess;
  for (auto& [handle, stream] : state().streams) {
    if (stream.capture == nullptr) continue;
    stream.invalidated = true;
    status = kCaptureUnsupported;
  }
  return status;
}

int copy_async(void* to, const void* from, std::size_t bytes, void* stream) {
  return enqueue_uncaptured(stream, {[=] { std::memcpy(to, from, bytes); }, from});
}

std::shared_ptr<Event> find_event(void* handle) {
  const auto found = state().events.find(handle);
  return found == state().events.end() ? nullptr : found->second;
}

/// The operation that a launch becomes: a registered kernel with the values of its parameters.
Operation launch_operation(const Function& function, unsigned grid, unsigned block,
                           unsigned shared_bytes, void** parameters) {
  if (const auto faults = state().faults.find(function.name); faults != state().faults.end())
    return {[context = function.context, status = faults->second] { context->fault = status; }};
  const auto found = state().kernels.find(function.name);
  if (found == state().kernels.end() || found->second.kernel == nullptr) return {[] {}};
  const RegisteredKernel& kernel = found->second;
  std::vector<std::vector<char>> values;
  for (std::size_t i = 0; i < kernel.parameter_sizes.size(); ++i) {
    const char* const bytes = static_cast<const char*>(parameters[i]);
    values.emplace_back(bytes, bytes + kernel.parameter_sizes[i]);
  }
  return {[=, name = function.name]() mutable {
    std::vector<void*> pointers;
    for (std::vector<char>& value : values) pointers.push_back(value.data());
    kernel.kernel(name.c_str(), grid, block, shared_bytes, pointers.data(), kernel.user);
  }};
}

/// CUlaunchConfig
struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  void* stream;
  void* attributes;
  unsigned num_attributes;
};

}  // namespace

// What tests program and ask.

FAKE_API void fake_cuda_fail(const char* call, int status) {
  const std::lock_guard lock(state().mutex);
  state().failures[call] = status;
}

FAKE_API int fake_cuda_count(const char* what) {
  const std::lock_guard lock(state().mutex);
  return state().counts[what];
}

FAKE_API int fake_cuda_current_device() {
  return current.empty() ? -1 : current.back()->device;
}

FAKE_API void fake_cuda_set_attribute(int attribute, int value) {
  const std::lock_guard lock(state().mutex);
  state().attributes[attribute] = value;
}

FAKE_API void fake_cuda_set_attribute_of(int device, int attribute, int value) {
  const std::lock_guard lock(state().mutex);
  if (value < 0)
    state().attributes_of.erase({device, attribute});
  else
    state().attributes_of[{device, attribute}] = value;
}

FAKE_API void fake_cuda_fault(const char* kernel, int status) {
  const std::lock_guard lock(state().mutex);
  if (status != kSuccess) {
    state().faults[kernel] = status;
    return;
  }
  state().faults.erase(kernel);
  for (FakeContext& context : contexts) context.fault = kSuccess;
}

FAKE_API void fake_cuda_set_global(const char* name, int value) {
  const std::lock_guard lock(state().mutex);
  state().globals[name] = value;
}

FAKE_API void fake_cuda_on_launch(const char* name, const std::size_t* sizes, std::size_t count,
                                  Kernel* kernel, void* user) {
  const std::lock_guard lock(state().mutex);
  state().kernels[name] = {{sizes, sizes + count}, kernel, user};
}

FAKE_API void fake_cuda_hold(void* stream) {
  const std::lock_guard lock(state().mutex);
  stream_of(stream).held = true;
}

FAKE_API void fake_cuda_release(void* stream) {
  const std::lock_guard lock(state().mutex);
  drain(stream_of(stream));
  stream_of(stream).held = false;
}

FAKE_API int fake_cuda_queued(void* stream) {
  const std::lock_guard lock(state().mutex);
  return static_cast<int>(stream_of(stream).queue.size());
}

FAKE_API void fake_cuda_begin_capture(void* stream) {
  const std::lock_guard lock(state().mutex);
  state().graphs.push_back(std::make_unique<FakeGraph>());
  stream_of(stream).capture = state().graphs.back().get();
  stream_of(stream).invalidated = false;
}

FAKE_API FakeGraph* fake_cuda_end_capture(void* stream) {
  const std::lock_guard lock(state().mutex);
  Stream& captured = stream_of(stream);
  FakeGraph* const graph = std::exchange(captured.capture, nullptr);
  return captured.invalidated ? nullptr : graph;
}

FAKE_API void fake_cuda_replay(FakeGraph* graph, void* stream) {
  const std::lock_guard lock(state().mutex);
  for (const Operation& operation : graph->operations) enqueue(stream_of(stream), operation);
}

// The driver.

FAKE_API int cuGetErrorName(int status, const char** name) {
  const Text* text = find_text(status);
  *name = text == nullptr ? nullptr : text->name;
  return text == nullptr ? kInvalidValue : kSuccess;
}

FAKE_API int cuGetErrorString(int status, const char** string) {
  const Text* text = find_text(status);
  *string = text == nullptr ? nullptr : text->text;
  return text == nullptr ? kInvalidValue : kSuccess;
}

FAKE_API int cuInit(unsigned) {
  return planned(__func__);
}

FAKE_API int cuDriverGetVersion(int* version) {
  if (const int status = planned(__func__)) return status;
  const char* chosen = std::getenv("TRENCADIS_FAKE_CUDA_VERSION");
  *version = chosen == nullptr ? 13000 : std::atoi(chosen);
  return kSuccess;
}

FAKE_API int cuDeviceGetCount(int* count) {
  *count = kDevices;
  return planned(__func__);
}

FAKE_API int cuDeviceGet(int* device, int ordinal) {
  if (const int status = planned(__func__)) return status;
  *device = ordinal;
  return 0 <= ordinal && ordinal < kDevices ? kSuccess : kInvalidDevice;
}

FAKE_API int cuDeviceGetName(char* name, int bytes, int device) {
  if (const int status = planned(__func__)) return status;
  std::strncpy(name, device == 0 ? "Fake 0" : "Fake 1", static_cast<std::size_t>(bytes));
  return kSuccess;
}

FAKE_API int cuDeviceGetAttribute(int* value, int attribute, int device) {
  if (const int status = planned(__func__)) return status;
  *value = attribute_of(device, attribute);
  return kSuccess;
}

FAKE_API int cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  *bytes = device_bytes();
  return planned(__func__);
}

FAKE_API int cuDevicePrimaryCtxRetain(FakeContext** context, int device) {
  if (const int status = planned(__func__)) return status;
  *context = &contexts.at(static_cast<std::size_t>(device));
  change("primary context", 1);
  return kSuccess;
}

FAKE_API int cuDevicePrimaryCtxRelease_v2(int) {
  if (const int status = planned(__func__)) return status;
  change("primary context", -1);
  return kSuccess;
}

FAKE_API int cuCtxGetCurrent(FakeContext** context) {
  if (const int status = planned(__func__)) return status;
  *context = current.empty() ? nullptr : current.back();
  return kSuccess;
}

FAKE_API int cuCtxPushCurrent_v2(FakeContext* context) {
  if (const int status = planned(__func__)) return status;
  current.push_back(context);
  return kSuccess;
}

FAKE_API int cuCtxPopCurrent_v2(FakeContext** context) {
  if (const int status = planned(__func__)) return status;
  if (current.empty()) return kInvalidContext;
  *context = current.back();
  current.pop_back();
  return kSuccess;
}

FAKE_API int cuModuleLoadData(Module** module, const char* image) {
  if (const int status = planned_in_context(__func__)) return status;
  const std::string_view text(image, 4);
  const bool compiled = text ==
                            "\x7f"
                            "ELF" ||
                        text.starts_with("//");  // PTX as NVRTC writes it
  if (text.starts_with("\x7f") && !runs(current.back()->device, image)) return kNoBinary;
  *module = new Module{compiled ? "ELF" : image, current.back(), {}};
  change("module", 1);
  return kSuccess;
}

FAKE_API int cuModuleUnload(Module* module) {
  if (const int status = planned_in_context(__func__)) return status;
  delete module;
  change("module", -1);
  return kSuccess;
}

FAKE_API int cuModuleGetFunction(Function** function, Module* module, const char* name) {
  if (const int status = planned_in_context(__func__)) return status;
  const bool there =
      module->text == "ELF"
          ? std::strncmp(name, "missing", 7) != 0
          : (" " + module->text + " ").find(" " + std::string(name) + " ") != std::string::npos;
  if (!there) return kNotFound;
  *function = &module->functions.try_emplace(name, Function{name, module->context}).first->second;
  return kSuccess;
}

FAKE_API int cuModuleGetGlobal_v2(std::uint64_t* pointer, std::size_t* bytes, Module*,
                                  const char* name) {
  if (const int status = planned_in_context(__func__)) return status;
  const std::lock_guard lock(state().mutex);
  if (const char* plan = std::getenv("TRENCADIS_FAKE_CUDA_GLOBAL")) {
    const std::string_view global = plan;
    const std::size_t equals = global.find('=');
    if (global.substr(0, equals) == name)
      state().globals.try_emplace(name, std::atoi(plan + equals + 1));
  }
  const auto found = state().globals.find(name);
  if (found == state().globals.end()) return kNotFound;
  *pointer = reinterpret_cast<std::uint64_t>(&found->second);
  *bytes = sizeof(int);
  return kSuccess;
}

FAKE_API int cuFuncSetAttribute(void*, int, int) {
  return planned(__func__);
}

FAKE_API int cuFuncGetAttribute(int* value, int, void*) {
  *value = 0;
  return planned(__func__);
}

FAKE_API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void*, int, std::size_t) {
  *blocks = 1;
  return planned_in_context(__func__);
}

FAKE_API int cuLaunchKernelEx(const LaunchConfig* config, const Function* function,
                              void** parameters, void**) {
  if (const int status = planned_in_context(__func__)) return status;
  const std::lock_guard lock(state().mutex);
  if (function == nullptr) return kInvalidHandle;
  if (config->grid[0] == 0 || config->block[0] == 0) return kInvalidValue;
  Stream& stream = stream_of(config->stream);
  if (function->context != current.back() || !is_ours(stream)) return kInvalidHandle;
  Operation operation = launch_operation(*function, config->grid[0], config->block[0],
                                         config->shared_bytes, parameters);
  change("launch", 1);
  if (stream.capture != nullptr)
    stream.capture->operations.push_back(std::move(operation));
  else
    enqueue(stream, std::move(operation));
  return kSuccess;
}

FAKE_API int cuMemAlloc_v2(std::uint64_t* pointer, std::size_t bytes) {
  if (const int status = planned_in_context(__func__)) return status;
  const std::lock_guard lock(state().mutex);
  if (bytes == 0) return kInvalidValue;
  if (const int status = forbidden_by_capture()) return status;
  if (used_bytes() + bytes > device_bytes()) return kOutOfMemory;
  // Aligned as the driver does.
  void* memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(memory, kPoison, bytes);
  state().device_memory[memory] = {bytes, current.back()->device};
  ++state().counts["device buffer"];
  *pointer = reinterpret_cast<std::uint64_t>(memory);
  return kSuccess;
}

FAKE_API int cuMemFree_v2(std::uint64_t pointer) {
  if (const int status = planned_in_context(__func__)) return status;
  const std::lock_guard lock(state().mutex);
  if (const int status = forbidden_by_capture()) return status;
  void* memory = reinterpret_cast<void*>(pointer);
  const auto found = state().device_memory.find(memory);
  if (found == state().device_memory.end()) return kInvalidValue;
  expect_own_memory(memory);
  for (auto& [handle, stream] : state().streams) drain(stream);
  std::memset(memory, kPoison, found->second.bytes);
  state().device_memory.erase(found);
  std::free(memory);
  --state().counts["device buffer"];
  return kSuccess;
}

FAKE_API int cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total) {
  if (const int status = planned_in_context(__func__)) return status;
  const std::lock_guard lock(state().mutex);
  *total = device_bytes();
  *free_bytes = device_bytes() - used_bytes();
  return kSuccess;
}

FAKE_API int cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  if (const int status = planned_in_context(__func__)) return status;
  if (const int status = forbidden_by_capture()) return status;
  const std::lock_guard lock(state().mutex);
  *pointer = std::malloc(bytes);
  std::memset(*pointer, kPoison, bytes);
  state().pinned_memory[*pointer] = bytes;
  change("pinned buffer", 1);
  return kSuccess;
}

FAKE_API int cuMemFreeHost(void* pointer) {
  if (const int status = planned_in_context(__func__)) return status;
  if (const int status = forbidden_by_capture()) return status;
  const std::lock_guard lock(state().mutex);
  const auto found = state().pinned_memory.find(pointer);
  if (found == state().pinned_memory.end()) return kInvalidValue;
  const char* const begin = static_cast<char*>(pointer);
  for (const auto& [handle, stream] : state().streams) {
    for (const Operation& operation : stream.queue) {
      const char* const source = static_cast<const char*>(operation.reads);
      if (source == nullptr || source < begin || source >= begin + found->second) continue;
      change("freed in use", 1);
      return kInvalidValue;
    }
  }
  std::memset(pointer, kPoison, found->second);
  state().pinned_memory.erase(found);
  std::free(pointer);
  change("pinned buffer", -1);
  return kSuccess;
}

FAKE_API int cuMemcpyHtoDAsync_v2(std::uint64_t to, const void* from, std::size_t bytes,
                                  void* stream) {
  if (const int status = planned_in_context(__func__)) return status;
  expect_own_memory(reinterpret_cast<void*>(to));
  return copy_async(reinterpret_cast<void*>(to), from, bytes, stream);
}

FAKE_API int cuMemcpyDtoHAsync_v2(void* to, std::uint64_t from, std::size_t bytes, void* stream) {
  if (const int status = planned_in_context(__func__)) return status;
  expect_own_memory(reinterpret_cast<const void*>(from));
  return copy_async(to, reinterpret_cast<const void*>(from), bytes, stream);
}

FAKE_API int cuMemcpyDtoH_v2(void* to, std::uint64_t from, std::size_t bytes) {
  if (const int status = planned_in_context(__func__)) return status;
  if (const int status = forbidden_by_capture()) return status;
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return kSuccess;
}

FAKE_API int cuMemsetD8Async(std::uint64_t to, unsigned char value, std::size_t bytes,
                             void* stream) {
  if (const int status = planned_in_context(__func__)) return status;
  return enqueue_uncaptured(stream,
                            {[=] { std::memset(reinterpret_cast<void*>(to), value, bytes); }});
}

FAKE_API int cuPointerGetAttribute(void* value, int attribute, std::uint64_t pointer) {
  if (const int status = planned(__func__)) return status;
  const std::lock_guard lock(state().mutex);
  const DeviceMemory* const memory = find_memory(reinterpret_cast<void*>(pointer));
  if (memory == nullptr) return kInvalidValue;
  // Device memory, or the ordinal.
  const unsigned answer = attribute == 2 ? 2 : static_cast<unsigned>(memory->device);
  std::memcpy(value, &answer, sizeof answer);
  return kSuccess;
}

FAKE_API int cuStreamIsCapturing(void* stream, int* capturing) {
  if (const int status = planned_in_context(__func__)) return status;
  const std::lock_guard lock(state().mutex);
  const Stream& asked = stream_of(stream);
  if (!is_ours(asked)) return kInvalidHandle;
  *capturing = asked.capture == nullptr ? 0 : asked.invalidated ? 2 : 1;
  return kSuccess;
}

FAKE_API int cuStreamSynchronize(void* stream) {
  if (const int status = planned_in_context(__func__)) return status;
  const std::lock_guard lock(state().mutex);
  if (!is_ours(stream_of(stream))) return kInvalidHandle;
  drain(stream_of(stream));
  return fault();
}

FAKE_API int cuEventCreate(void** event, unsigned) {
  if (const int status = planned_in_context(__func__)) return status;
  const std::lock_guard lock(state().mutex);
  auto made = std::make_shared<Event>();
  *event = made.get();
  state().events[*event] = std::move(made);
  change("event", 1);
  return kSuccess;
}

FAKE_API int cuEventDestroy_v2(void* event) {
  if (const int status = planned_in_context(__func__)) return status;
  const std::lock_guard lock(state().mutex);
  if (state().events.erase(event) == 0) return kInvalidHandle;
  change("event", -1);
  return kSuccess;
}

FAKE_API int cuEventRecord(void* handle, void* stream) {
  if (const int status = planned_in_context(__func__)) return status;
  const std::lock_guard lock(state().mutex);
  const std::shared_ptr<Event> event = find_event(handle);
  if (event == nullptr) return kInvalidHandle;
  const std::uint64_t number = event->issued + 1;
  const int status = enqueue_uncaptured(stream, {[=] {
                                          event->done = std::max(event->done, number);
                                          event->at = std::chrono::steady_clock::now();
                                        }});
  if (status != kSuccess) return status;
  event->issued = number;
  event->stream = stream;
  return kSuccess;
}

FAKE_API int cuEventQuery(void* handle) {
  if (const int status = planned(__func__)) return status;
  const std::lock_guard lock(state().mutex);
  const std::shared_ptr<Event> event = find_event(handle);
  if (event == nullptr) return kInvalidHandle;
  if (const int status = fault()) return status;
  return event->ready() ? kSuccess : kNotReady;
}

FAKE_API int cuEventSynchronize(void* handle) {
  if (const int status = planned(__func__)) return status;
  const std::lock_guard lock(state().mutex);
  const std::shared_ptr<Event> event = find_event(handle);
  if (event == nullptr) return kInvalidHandle;
  Stream& stream = stream_of(event->stream);
  while (!event->ready()) run_first(stream);
  return fault();
}

FAKE_API int cuEventElapsedTime(float* milliseconds, void* start, void* stop) {
  if (const int status = planned(__func__)) return status;
  const std::lock_guard lock(state().mutex);
  const std::shared_ptr<Event> from = find_event(start), to = find_event(stop);
  if (from == nullptr || to == nullptr) return kInvalidHandle;
  if (!from->ready() || !to->ready()) return kNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(to->at - from->at).count();
  return kSuccess;
}

FAKE_API int cuStreamCreate(void** stream, unsigned) {
  if (const int status = planned_in_context(__func__)) return status;
  const std::lock_guard lock(state().mutex);
  *stream = new char();
  state().streams[*stream].context = current.back();
  change("stream", 1);
  return kSuccess;
}

FAKE_API int cuStreamDestroy_v2(void* handle) {
  if (const int status = planned_in_context(__func__)) return status;
  const std::lock_guard lock(state().mutex);
  drain(state().streams[handle]);
  state().streams.erase(handle);
  delete static_cast<char*>(handle);
  change("stream", -1);
  return kSuccess;
}

FAKE_API int cuStreamBeginCapture_v2(void* stream, int) {
  if (const int status = planned_in_context(__func__)) return status;
  fake_cuda_begin_capture(stream);
  return kSuccess;
}

FAKE_API int cuStreamEndCapture(void* stream, FakeGraph** graph) {
  if (const int status = planned_in_context(__func__)) return status;
  *graph = fake_cuda_end_capture(stream);
  return *graph == nullptr ? kCaptureInvalidated : kSuccess;
}

FAKE_API int cuGraphInstantiateWithFlags(FakeGraph** executable, const FakeGraph* graph,
                                         unsigned long long) {
  if (const int status = planned_in_context(__func__)) return status;
  *executable = new FakeGraph(*graph);
  change("executable graph", 1);
  return kSuccess;
}

FAKE_API int cuGraphLaunch(FakeGraph* executable, void* stream) {
  if (const int status = planned_in_context(__func__)) return status;
  fake_cuda_replay(executable, stream);
  return kSuccess;
}

/// Graphs live as long as the library.
FAKE_API int cuGraphDestroy(FakeGraph*) {
  return planned(__func__);
}

FAKE_API int cuGraphExecDestroy(FakeGraph* executable) {
  if (const int status = planned(__func__)) return status;
  delete executable;
  change("executable graph", -1);
  return kSuccess;
}
