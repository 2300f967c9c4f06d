#include "backends/cuda/streams.h"

#include <utility>

namespace trencadis::cuda {
namespace {

constexpr unsigned kNonBlocking = 1;      // CU_STREAM_NON_BLOCKING: beside the default stream
constexpr int kCaptureThreadLocal = 1;    // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
constexpr unsigned kEventWithTiming = 0;  // CU_EVENT_DEFAULT

}  // namespace

StreamFunctions::StreamFunctions(const Driver& driver)
    : create(driver.function<Status(Stream*, unsigned)>("cuStreamCreate")),
      destroy(driver.function<Status(Stream)>("cuStreamDestroy_v2")),
      begin_capture(driver.function<Status(Stream, int)>("cuStreamBeginCapture_v2")),
      end_capture(driver.function<Status(Stream, GraphHandle*)>("cuStreamEndCapture")),
      instantiate(driver.function<Status(ExecutableHandle*, GraphHandle, unsigned long long)>(
          "cuGraphInstantiateWithFlags")),
      launch(driver.function<Status(ExecutableHandle, Stream)>("cuGraphLaunch")),
      destroy_graph(driver.function<Status(GraphHandle)>("cuGraphDestroy")),
      destroy_executable(driver.function<Status(ExecutableHandle)>("cuGraphExecDestroy")),
      elapsed_time(
          driver.function<Status(float*, EventHandle, EventHandle)>("cuEventElapsedTime")) {}

const StreamFunctions& stream_functions() {
  static const StreamFunctions functions(driver());
  return functions;
}

OwnedStream::OwnedStream(ContextPointer context) {
  const ContextGuard guard(*context);
  Stream stream = nullptr;
  stream_functions().create(&stream, kNonBlocking);
  stream_ = {std::move(context), stream};
}

void OwnedStream::synchronize() const {
  const ContextGuard guard(*context());
  context()->driver().stream_synchronize(get());
}

ExecutableGraph::ExecutableGraph(const OwnedStream& stream, const std::function<void()>& work) {
  const StreamFunctions& calls = stream_functions();
  const ContextGuard guard(*stream.context());
  GraphHandle graph = nullptr;
  calls.begin_capture(stream.get(), kCaptureThreadLocal);
  try {
    work();
  } catch (...) {
    if (calls.end_capture.status(stream.get(), &graph) == Status::success && graph != nullptr)
      static_cast<void>(calls.destroy_graph.status(graph));
    throw;
  }
  calls.end_capture(stream.get(), &graph);
  ExecutableHandle executable = nullptr;
  const Status status = calls.instantiate.status(&executable, graph, 0);
  static_cast<void>(calls.destroy_graph.status(graph));
  if (status != Status::success)
    stream.context()->driver().texts().fail(calls.instantiate.symbol(), status);
  graph_ = {stream.context(), executable};
}

void ExecutableGraph::launch(Stream stream) const {
  const ContextGuard guard(*graph_.context());
  stream_functions().launch(graph_.get(), stream);
}

TimedEvent::TimedEvent(ContextPointer context) {
  const ContextGuard guard(*context);
  EventHandle event = nullptr;
  context->driver().event_create(&event, kEventWithTiming);
  event_ = {std::move(context), event};
}

void TimedEvent::record(Stream stream) const {
  const ContextGuard guard(*event_.context());
  event_.context()->driver().event_record(event_.get(), stream);
}

double TimedEvent::since(const TimedEvent& start) const {
  const ContextGuard guard(*event_.context());
  event_.context()->driver().event_synchronize(event_.get());
  float milliseconds = 0;
  stream_functions().elapsed_time(&milliseconds, start.event_.get(), event_.get());
  return double{milliseconds} * 1e3;
}

}  // namespace trencadis::cuda
