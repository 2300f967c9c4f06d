#include <trencadis/device.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "backends/cuda/resources.h"
#include "backends/cuda/streams.h"
#include "base/check.h"

namespace trencadis {
namespace {

cuda::ContextPointer context_of(Device device) {
  return cuda::PrimaryContext::retain(cuda::driver(), device.index);
}

bool on_gpu(Device device) {
  return device.kind == DeviceKind::cuda;
}

constexpr std::size_t kAlignment = 256;

struct Line {
  alignas(kAlignment) std::byte bytes[kAlignment];
};

}  // namespace

// --- memory --------------------------------------------------------------------------------------

struct DeviceMemory::Impl {
  Impl(Device where, std::int64_t size) : device(where), bytes(size) {
    const auto count = static_cast<std::size_t>(size);
    if (on_gpu(device)) {
      there = cuda::DeviceBuffer(context_of(device), count);
      data = reinterpret_cast<void*>(there.get());
    } else {
      try {
        host = std::make_unique_for_overwrite<Line[]>(count / kAlignment + 1);
      } catch (const std::bad_alloc&) {
        base::fail(ErrorKind::out_of_capacity, "{} bytes are needed, and the host has fewer free",
                   size);
      }
      data = host.get();
    }
  }

  void check_range(std::int64_t count, std::int64_t offset) const {
    base::check(count >= 0 && offset >= 0 && offset <= bytes - count,
                "{} bytes from byte {} on are copied, expected bytes of 0 .. {}", count, offset,
                bytes);
  }

  Device device;
  std::int64_t bytes;
  void* data = nullptr;
  cuda::DeviceBuffer there;
  std::unique_ptr<Line[]> host;
};

DeviceMemory::DeviceMemory(Device device, std::int64_t bytes) {
  base::check(bytes >= 0, "bytes is {}, expected 0 or more", bytes);
  impl_ = std::make_unique<Impl>(device, bytes);
}
DeviceMemory::~DeviceMemory() = default;
DeviceMemory::DeviceMemory(DeviceMemory&&) noexcept = default;
DeviceMemory& DeviceMemory::operator=(DeviceMemory&&) noexcept = default;

void* DeviceMemory::data() const noexcept {
  return impl_->data;
}
std::int64_t DeviceMemory::bytes() const noexcept {
  return impl_->bytes;
}
Device DeviceMemory::device() const noexcept {
  return impl_->device;
}

void DeviceMemory::upload(const void* host, std::int64_t bytes, std::int64_t offset) {
  impl_->check_range(bytes, offset);
  if (bytes == 0) return;
  const auto count = static_cast<std::size_t>(bytes);
  if (!on_gpu(impl_->device)) {
    std::memcpy(static_cast<std::byte*>(impl_->data) + offset, host, count);
    return;
  }
  const cuda::ContextPointer context = context_of(impl_->device);
  const cuda::ContextGuard guard(*context);
  context->driver().memcpy_htod_async(impl_->there.get() + static_cast<std::uint64_t>(offset), host,
                                      count, nullptr);
  context->driver().stream_synchronize(nullptr);
}

void DeviceMemory::download(void* host, std::int64_t bytes, std::int64_t offset) const {
  impl_->check_range(bytes, offset);
  if (bytes == 0) return;
  const auto count = static_cast<std::size_t>(bytes);
  if (!on_gpu(impl_->device)) {
    std::memcpy(host, static_cast<const std::byte*>(impl_->data) + offset, count);
    return;
  }
  const cuda::ContextPointer context = context_of(impl_->device);
  const cuda::ContextGuard guard(*context);
  context->driver().memcpy_dtoh(host, impl_->there.get() + static_cast<std::uint64_t>(offset),
                                count);
}

void DeviceMemory::fill(std::uint8_t value) {
  const auto count = static_cast<std::size_t>(impl_->bytes);
  if (count == 0) return;
  if (!on_gpu(impl_->device)) {
    std::memset(impl_->data, value, count);
    return;
  }
  const cuda::ContextPointer context = context_of(impl_->device);
  const cuda::ContextGuard guard(*context);
  context->driver().memset_d8_async(impl_->there.get(), value, count, nullptr);
  context->driver().stream_synchronize(nullptr);
}

// --- streams -------------------------------------------------------------------------------------

struct DeviceStream::Impl {
  explicit Impl(Device where) : device(where) {
    if (on_gpu(device)) stream.emplace(context_of(device));
  }
  Device device;
  std::optional<cuda::OwnedStream> stream;
};

DeviceStream::DeviceStream(Device device) : impl_(std::make_unique<Impl>(device)) {}
DeviceStream::~DeviceStream() = default;
DeviceStream::DeviceStream(DeviceStream&&) noexcept = default;
DeviceStream& DeviceStream::operator=(DeviceStream&&) noexcept = default;

void* DeviceStream::handle() const noexcept {
  return impl_->stream ? impl_->stream->get() : nullptr;
}
Device DeviceStream::device() const noexcept {
  return impl_->device;
}
void DeviceStream::synchronize() const {
  if (impl_->stream) impl_->stream->synchronize();
}

// --- graphs --------------------------------------------------------------------------------------

struct DeviceGraph::Impl {
  std::function<void()> work;
  std::optional<cuda::ExecutableGraph> graph;
};

DeviceGraph::DeviceGraph(DeviceStream& stream, const std::function<void()>& work)
    : impl_(std::make_unique<Impl>()) {
  if (stream.impl_->stream)
    impl_->graph.emplace(*stream.impl_->stream, work);
  else
    impl_->work = work;
}
DeviceGraph::~DeviceGraph() = default;
DeviceGraph::DeviceGraph(DeviceGraph&&) noexcept = default;
DeviceGraph& DeviceGraph::operator=(DeviceGraph&&) noexcept = default;

void DeviceGraph::launch(DeviceStream& stream) const {
  if (impl_->graph)
    impl_->graph->launch(static_cast<cuda::Stream>(stream.handle()));
  else
    impl_->work();
}

// --- clocks --------------------------------------------------------------------------------------

struct DeviceTimer::Impl {
  using Clock = std::chrono::steady_clock;
  struct Events {
    cuda::TimedEvent start, stop;
  };
  std::optional<Events> events;
  Clock::time_point started, stopped;
};

DeviceTimer::DeviceTimer(Device device) : impl_(std::make_unique<Impl>()) {
  if (!on_gpu(device)) return;
  const cuda::ContextPointer context = context_of(device);
  impl_->events.emplace(Impl::Events{cuda::TimedEvent(context), cuda::TimedEvent(context)});
}
DeviceTimer::~DeviceTimer() = default;
DeviceTimer::DeviceTimer(DeviceTimer&&) noexcept = default;
DeviceTimer& DeviceTimer::operator=(DeviceTimer&&) noexcept = default;

void DeviceTimer::start(DeviceStream& stream) {
  if (impl_->events)
    impl_->events->start.record(static_cast<cuda::Stream>(stream.handle()));
  else
    impl_->started = Impl::Clock::now();
}

void DeviceTimer::stop(DeviceStream& stream) {
  if (impl_->events)
    impl_->events->stop.record(static_cast<cuda::Stream>(stream.handle()));
  else
    impl_->stopped = Impl::Clock::now();
}

double DeviceTimer::microseconds() const {
  if (impl_->events) return impl_->events->stop.since(impl_->events->start);
  return std::chrono::duration<double, std::micro>(impl_->stopped - impl_->started).count();
}

}  // namespace trencadis
