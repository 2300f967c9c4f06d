// Streams, graphs and timed events: what programs without a framework need of the driver beside the
// engine's own table.
#pragma once

#include <functional>

#include "backends/cuda/resources.h"

namespace trencadis::cuda {

using GraphHandle = struct GraphTag*;           // CUgraph
using ExecutableHandle = struct GraphExecTag*;  // CUgraphExec

/// Bound when first asked for. Throws Error(not_supported) where the driver lacks one.
struct StreamFunctions {
  explicit StreamFunctions(const Driver& driver);

  Call<Status(Stream*, unsigned flags)> create;
  Call<Status(Stream)> destroy;
  Call<Status(Stream, int mode)> begin_capture;
  Call<Status(Stream, GraphHandle*)> end_capture;
  Call<Status(ExecutableHandle*, GraphHandle, unsigned long long flags)> instantiate;
  Call<Status(ExecutableHandle, Stream)> launch;
  Call<Status(GraphHandle)> destroy_graph;
  Call<Status(ExecutableHandle)> destroy_executable;
  Call<Status(float* milliseconds, EventHandle, EventHandle)> elapsed_time;
};
const StreamFunctions& stream_functions();

/// All members throw Error(device).
class OwnedStream {
 public:
  explicit OwnedStream(ContextPointer context);
  Stream get() const noexcept { return stream_.get(); }
  const ContextPointer& context() const noexcept { return stream_.context(); }
  void synchronize() const;

 private:
  static Status release(const Driver&, Stream stream) {
    return stream_functions().destroy.status(stream);
  }
  Owned<Stream, release> stream_;
};

class ExecutableGraph {
 public:
  /// What work() queues on the stream. What work() throws is thrown on, with the capture ended.
  ExecutableGraph(const OwnedStream& stream, const std::function<void()>& work);
  void launch(Stream stream) const;

 private:
  static Status release(const Driver&, ExecutableHandle graph) {
    return stream_functions().destroy_executable.status(graph);
  }
  Owned<ExecutableHandle, release> graph_;
};

/// A point in a stream with its time.
class TimedEvent {
 public:
  explicit TimedEvent(ContextPointer context);
  void record(Stream stream) const;
  /// Microseconds from `start` to here; waits for both.
  double since(const TimedEvent& start) const;

 private:
  static Status release(const Driver& driver, EventHandle event) {
    return driver.event_destroy.status(event);
  }
  Owned<EventHandle, release> event_;
};

}  // namespace trencadis::cuda
