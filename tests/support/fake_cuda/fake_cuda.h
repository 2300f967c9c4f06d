// A CUDA driver for tests: libcuda_fake.so has the functions that src/backends/cuda/driver.h looks
// for, on the host. Two devices of compute capability 9.0; memory is malloc's, holds 0xFF bytes
// when it is allocated and again when it is freed. Calls that need a current context fail without
// one, as the real ones do, and so do launches of another context's functions and calls on its
// streams. Copies to and from another device's memory, and freeing it, pass and are counted.
//
// A module is text that lists its functions: "trencadis_attention trencadis_merge". Bytes that
// begin as ELF or PTX do have every function but those whose names begin with "missing". Cubins
// are loaded on devices that would run them. Globals are those that the test set.
//
// A launch calls what the test has registered for the function's name, with the values that its
// parameters had at the launch; where nothing is, it runs nothing and is counted. A kernel that the
// test makes fail does so where it runs: all that needs its context then fails with that status,
// but for making it current and not.
//
// A stream is done with a call when the call returns, unless it is held: then copies, launches and
// records wait until the stream is released, in order, and a copy reads its source when it runs.
// What waits for an event runs the stream that it is recorded in so far and no further. Freeing
// device memory waits for all streams, as the driver does; pinned memory that a waiting copy reads
// is not freed, and counts as "freed in use".
//
// A stream that is being captured keeps launches for a graph. Copies, records, allocating and
// freeing fail then and invalidate the capture: the real driver takes some of them into a graph,
// which an engine that promises constant arguments must not let happen.
//
// A timed event has the host's time at which its stream came to it.
//
// The environment programs it where no test code runs before the driver is opened:
//   TRENCADIS_FAKE_CUDA_VERSION=11080     what cuDriverGetVersion answers; 13000 where not set
//   TRENCADIS_FAKE_CUDA_FAIL=cuInit=100   a call that fails, and its status
//   TRENCADIS_FAKE_CUDA_GLOBAL=name=1     a global of all modules, unless the test sets it
//   TRENCADIS_FAKE_CUDA_MIB=1000          memory of each device; 64 where not set
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/paths.h"

namespace trencadis::testing {

/// What the test says to the library, and what it asks of it.
class FakeCuda {
 public:
  /// What a launch calls. `parameters` point to copies, of the sizes that the test told. Runs where
  /// the stream does: must not throw.
  using Kernel = void(const char* function, unsigned grid, unsigned block, unsigned shared_bytes,
                      void** parameters, void* user);
  /// A captured graph. Lives as long as the library.
  using Graph = struct FakeGraph*;

  static std::string path() { return binary_dir() + "/lib/libcuda_fake.so"; }

  FakeCuda() : library_(dlopen(path().c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) throw std::runtime_error(dlerror());
  }
  FakeCuda(const FakeCuda&) = delete;
  FakeCuda& operator=(const FakeCuda&) = delete;
  ~FakeCuda() { dlclose(library_); }

  /// From now on `call` returns `status` and does nothing; 0: it works again.
  void fail(const std::string& call, int status) const {
    function<void(const char*, int)>("fake_cuda_fail")(call.c_str(), status);
  }

  /// How many there are now: "primary context", "device buffer", "pinned buffer", "event",
  /// "module", "stream", "executable graph"; since the library was loaded: "launch", "freed in
  /// use", "memory of another device", and calls of a function of the driver, by its name.
  int count(const std::string& what) const {
    return function<int(const char*)>("fake_cuda_count")(what.c_str());
  }

  /// The device whose context is current in this thread; -1: none.
  int current_device() const { return function<int()>("fake_cuda_current_device")(); }

  /// Of all devices, by its number in cuda.h.
  void set_attribute(int attribute, int value) const {
    function<void(int, int)>("fake_cuda_set_attribute")(attribute, value);
  }

  /// Of one device alone; -1: again that of all.
  void set_attribute_of(int device, int attribute, int value) const {
    function<void(int, int, int)>("fake_cuda_set_attribute_of")(device, attribute, value);
  }

  /// Launches of `kernel` fail with `status` when they run; 0: they work again, and so does every
  /// context.
  void fault(const std::string& kernel, int status) const {
    function<void(const char*, int)>("fake_cuda_fault")(kernel.c_str(), status);
  }

  /// Of all modules.
  void set_global(const std::string& name, int value) const {
    function<void(const char*, int)>("fake_cuda_set_global")(name.c_str(), value);
  }

  /// Launches of `name` take parameters of `sizes` bytes and call `kernel`.
  void on_launch(const std::string& name, std::initializer_list<std::size_t> sizes, Kernel* kernel,
                 void* user) const {
    function<void(const char*, const std::size_t*, std::size_t, Kernel*, void*)>(
        "fake_cuda_on_launch")(name.c_str(), sizes.begin(), sizes.size(), kernel, user);
  }

  void hold(void* stream) const { function<void(void*)>("fake_cuda_hold")(stream); }
  /// Runs what waits; the stream is no longer held.
  void release(void* stream) const { function<void(void*)>("fake_cuda_release")(stream); }
  /// Operations that wait.
  int queued(void* stream) const { return function<int(void*)>("fake_cuda_queued")(stream); }

  void begin_capture(void* stream) const {
    function<void(void*)>("fake_cuda_begin_capture")(stream);
  }
  /// Null where the capture was invalidated.
  Graph end_capture(void* stream) const {
    return function<Graph(void*)>("fake_cuda_end_capture")(stream);
  }
  void replay(Graph graph, void* stream) const {
    function<void(Graph, void*)>("fake_cuda_replay")(graph, stream);
  }

 private:
  template <class Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(library_, name));
  }

  void* library_;
};

}  // namespace trencadis::testing
