// Memory, streams, graphs and clocks of a device, for programs that have no framework to get them
// from: the `trencadis` command, benchmarks, tests. On the CPU a stream runs what it is given at
// once and a graph is the function that was captured.
#pragma once

#include <trencadis/tensor_view.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace trencadis {

/// Bytes on a device, 256-byte aligned. All members throw Error(device) where the driver fails.
class DeviceMemory {
 public:
  /// Uninitialised. Throws Error(invalid_argument) where bytes is negative, Error(not_supported)
  /// without such a device, Error(out_of_capacity).
  DeviceMemory(Device device, std::int64_t bytes);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&&) noexcept;
  DeviceMemory& operator=(DeviceMemory&&) noexcept;

  void* data() const noexcept;
  std::int64_t bytes() const noexcept;
  Device device() const noexcept;

  /// Copies `bytes` to or from byte `offset` on and waits until they are there. Throws
  /// Error(invalid_argument) beyond the end.
  void upload(const void* host, std::int64_t bytes, std::int64_t offset = 0);
  void download(void* host, std::int64_t bytes, std::int64_t offset = 0) const;
  /// Sets every byte and waits until it is there.
  void fill(std::uint8_t value);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A queue of work on a device, beside the default one.
class DeviceStream {
 public:
  /// Throws Error(not_supported | device).
  explicit DeviceStream(Device device);
  ~DeviceStream();
  DeviceStream(DeviceStream&&) noexcept;
  DeviceStream& operator=(DeviceStream&&) noexcept;

  /// What plan() and run() take: a CUstream; null on the CPU.
  void* handle() const noexcept;
  Device device() const noexcept;
  /// Returns when all that was queued is done. Throws Error(device).
  void synchronize() const;

 private:
  friend class DeviceGraph;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// What a function queued on a stream, to be queued again as a whole.
class DeviceGraph {
 public:
  /// Calls work() once, which queues on `stream` and nothing runs yet. Throws what work() throws,
  /// with the capture ended; Error(device).
  DeviceGraph(DeviceStream& stream, const std::function<void()>& work);
  ~DeviceGraph();
  DeviceGraph(DeviceGraph&&) noexcept;
  DeviceGraph& operator=(DeviceGraph&&) noexcept;

  /// Throws Error(device).
  void launch(DeviceStream& stream) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Time between two points of a stream.
class DeviceTimer {
 public:
  explicit DeviceTimer(Device device);
  ~DeviceTimer();
  DeviceTimer(DeviceTimer&&) noexcept;
  DeviceTimer& operator=(DeviceTimer&&) noexcept;

  void start(DeviceStream& stream);
  void stop(DeviceStream& stream);
  /// Between the last start() and stop(), once the stream has come there; waits for it.
  double microseconds() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trencadis
