#include "backends/cuda/cuda_executor.h"

#include <bit>
#include <cstdlib>
#include <utility>

#include "base/check.h"
#include "planner/plan_image.h"

namespace trencadis::cuda {
namespace {

Stream stream_of(void* stream) {
  return static_cast<Stream>(stream);
}

/// Rows of a pool that kernels of the Hopper template would not find: they take distances in 32
/// bits of the largest power of two that divides both strides (RingStrides,
/// kernels/cuda/collective).
void check_reach(const char* name, std::int64_t stride_page, std::int64_t stride_token,
                 const contract::BsrParams& kv) {
  const std::int64_t strides = stride_page | stride_token | contract::kLargestRowUnit;
  const int shift = std::countr_zero(static_cast<std::uint64_t>(strides));
  const auto units = [&](std::int64_t stride, std::int64_t count) {
    return static_cast<double>(std::abs(stride >> shift)) * static_cast<double>(count);
  };
  const double reach = units(stride_page, kv.blocks) + units(stride_token, kv.block_cols);
  if (reach < 2147483648.0) [[likely]]
    return;
  base::fail(
      ErrorKind::not_supported,
      "{} has pages {} elements apart and tokens {} apart, {} pages of {} tokens are in use: "
      "the Hopper template reaches 2^31 units of {} elements, these take {:.0f}; "
      "TRENCADIS_CUDA_TEMPLATE=portable has no such limit",
      name, stride_page, stride_token, kv.blocks, kv.block_cols, std::int64_t{1} << shift, reach);
}

}  // namespace

CudaExecutor::CudaExecutor(CompiledKernel kernel, DeviceLimits limits, bool graph_safe,
                           std::unique_ptr<PlanCheck> check)
    : kernel_(std::move(kernel)),
      limits_(std::move(limits)),
      graph_safe_(graph_safe),
      ring_(kernel_.context()),
      check_(std::move(check)) {}

void CudaExecutor::check_stream(void* stream) const {
  const ContextGuard guard(*kernel_.context());
  base::check(!kernel_.context()->is_capturing(stream_of(stream)),
              "plan() was called while its stream is being captured: a graph replays run(), and "
              "plan() comes before each replay");
}

std::byte* CudaExecutor::reserve(std::int64_t bytes) {
  const auto needed = static_cast<std::size_t>(bytes);
  if (memory_.bytes() >= needed) return reinterpret_cast<std::byte*>(memory_.get());
  if (grown_.bytes() < needed) {
    grown_ = DeviceBuffer();
    grown_ = DeviceBuffer(kernel_.context(), graph_safe_ ? needed : needed + needed / 2);
  }
  return reinterpret_cast<std::byte*>(grown_.get());
}

void CudaExecutor::submit(const contract::PlanView& plan, const contract::AttentionParams& params,
                          std::byte* workspace, void* stream) {
  const ContextGuard guard(*kernel_.context());
  const planner::StepArrays step(params);
  const planner::ImageLayout layout = planner::image_layout(plan, step);
  const auto bytes = static_cast<std::size_t>(layout.bytes);
  std::byte* const slot = ring_.acquire(bytes);
  planner::write_image(plan, step, layout, slot);
  const auto device = reinterpret_cast<DevicePointer>(workspace);
  try {
    ring_.submit(device, bytes, stream_of(stream));
  } catch (const Error& error) {
    if (device != plan_) throw;
    plan_intact_ = false;
    base::fail(error.kind(),
               "{}; the plan on the device may be half written, so run() is refused until the next "
               "plan(), and no graph may be replayed",
               error.what());
  }
  plan_ = device;
  plan_intact_ = true;
  if (check_ != nullptr)
    check_->submitted(plan_, *reinterpret_cast<const contract::PlanImage*>(slot), plan, step,
                      params);
  if (plan_ != grown_.get()) return;
  memory_ = std::move(grown_);
  grown_ = DeviceBuffer();  // the driver waits for the runs that still use it
}

void CudaExecutor::check_submitted(const contract::PlanView& plan, std::int64_t pool_tokens,
                                   void* stream) {
  if (check_ == nullptr || !plan_intact_) return;  // run() says what is wrong
  const ContextGuard guard(*kernel_.context());
  base::check(!kernel_.context()->is_capturing(stream_of(stream)),
              "run() was called while its stream is being captured, in the debug mode: a run then "
              "waits for the device, which a graph cannot; capture without config.debug_checks and "
              "TRENCADIS_DEBUG_CHECKS, or run without a graph");
  check_->run(plan, pool_tokens, stream_of(stream));
}

void CudaExecutor::run(const contract::PlanView& /*plan*/, const contract::AttentionParams& params,
                       void* stream) {
  if (!plan_intact_)
    base::fail(ErrorKind::device,
               "run() was called after a plan() that failed while it was copied to the device: "
               "plan() has to succeed first");
  const ContextGuard guard(*kernel_.context());
  const bool capturing = kernel_.context()->is_capturing(stream_of(stream));
  base::check(graph_safe_ || !capturing,
              "run() was called while its stream is being captured, but limits.max_qo_tokens is 0: "
              "a graph needs limits, which fix its grids and addresses");
  if (kernel_.counts_in_units()) {
    check_reach("k", params.k_stride_page, params.k_stride_token, params.kv);
    check_reach("v", params.v_stride_page, params.v_stride_token, params.kv);
  }
  contract::AttentionParams arguments = params;
  // The arrays came with the plan; those of the host mean nothing there.
  arguments.qo_indptr = arguments.kv_lens = nullptr;
  arguments.kv.indptr = arguments.kv.indices = nullptr;
  arguments.kv.positions = arguments.kv.kv_lens = nullptr;
  // Nor do their extents, which would make the arguments of a step its own.
  arguments.batch = arguments.kv.rows = 0;
  arguments.kv.blocks = 0;
  void* pointers[] = {&arguments, &plan_};
  LaunchAttribute overlap{.id = LaunchAttributeId::programmatic_stream_serialization};
  overlap.value.flag = 1;
  LaunchConfig config;
  config.grid_x = static_cast<unsigned>(limits_.num_ctas);
  config.block_x = kernel_.threads();
  config.dynamic_shared_bytes = kernel_.shared_bytes();
  config.stream = stream_of(stream);
  // In a graph the overlap is free; a launch by itself takes the host longer with it.
  const bool overlaps = capturing && kernel_.overlaps();
  config.attributes = overlaps ? &overlap : nullptr;
  config.num_attributes = overlaps ? 1 : 0;
  if (check_ != nullptr) [[unlikely]]
    return kernel_.context()->launch_and_wait(config, kernel_.attention(), pointers);
  kernel_.context()->launch(config, kernel_.attention(), pointers);
}

}  // namespace trencadis::cuda
