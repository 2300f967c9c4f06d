#include "gpu/step_tensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

#include "support/backend_under_test.h"
#include "support/with_extent.h"

namespace trencadis::testing {
namespace {

constexpr double kLsePoison = 123.0;

/// Behind what `from` holds every byte is 0xff, NaN in all formats.
void bring(HostTensor& to, const HostTensor& from) {
  const std::size_t bytes = from.bytes().size();
  ASSERT_LE(bytes, to.bytes().size()) << "the problem is larger than the tensors are made for";
  std::memcpy(to.bytes().data(), from.bytes().data(), bytes);
  std::memset(to.bytes().data() + bytes, 0xff, to.bytes().size() - bytes);
}

/// Where `view` of `from` lies in `to`, which has another extent of the outermost dimension.
TensorView moved(const TensorView& view, const HostTensor& from, const HostTensor& to,
                 std::int64_t extent) {
  const auto offset = static_cast<const std::byte*>(view.data()) -
                      static_cast<const std::byte*>(from.whole().data());
  std::vector<std::int64_t> shape(view.shape().begin(), view.shape().end());
  shape[0] = extent;
  return TensorView(static_cast<std::byte*>(to.whole().data()) + offset, view.dtype(), shape,
                    view.strides());
}

/// [tokens, heads] of [heads, all_tokens].
TensorView transposed(const HostTensor& lse, std::int64_t tokens) {
  const TensorView whole = lse.whole();
  const std::int64_t shape[] = {tokens, whole.size(0)}, strides[] = {1, whole.size(1)};
  return TensorView(whole.data(), DType::f32, shape, strides);
}

TensorView written(const HostTensor& out, const Problem& problem) {
  return out.whole()
      .slice(0, 0, problem.nnz_q())
      .slice(1, 0, problem.config.heads.qo)
      .slice(2, 0, problem.spec.vo());
}

}  // namespace

StepTensors::StepTensors(const Problem& like, std::int64_t tokens, std::int64_t pages,
                         Device device)
    : tokens_(tokens),
      host_q_(like.spec.dtype_q, with_extent(like.q_storage, tokens)),
      host_pool_(like.spec.dtype_kv, with_extent(like.k_storage, pages)),
      host_out_(like.spec.dtype_o, {tokens, like.config.heads.qo + 1, like.spec.vo() + 8}),
      host_lse_(DType::f32, {like.config.heads.qo, tokens}, kLsePoison),
      q_(host_q_.whole(), device),
      pool_(host_pool_.whole(), device),
      out_(host_out_.whole(), device),
      lse_(host_lse_.whole(), device) {}

StepTensors::StepTensors(const Problem& problem, Device device)
    : StepTensors(problem, problem.nnz_q(), problem.k_storage.whole().size(0), device) {
  load(problem);
}

void StepTensors::load(const Problem& problem) {
  testing::bring(host_q_, problem.q_storage);
  testing::bring(host_pool_, problem.k_storage);
  fill(host_out_.whole(), kNan);
  fill(host_lse_.whole(), kLsePoison);
  for (DeviceTensor* tensor : {&q_, &pool_, &out_, &lse_}) tensor->bring();
}

RunArgs StepTensors::args(const Problem& problem, void* stream) const {
  const std::int64_t tokens = problem.nnz_q(), pages = host_pool_.whole().size(0);
  RunArgs args;
  args.q = q_.place_of(moved(problem.q, problem.q_storage, host_q_, tokens));
  args.k = pool_.place_of(moved(problem.k, problem.k_storage, host_pool_, pages));
  args.v = pool_.place_of(moved(problem.v, problem.k_storage, host_pool_, pages));
  args.out = out_.place_of(written(host_out_, problem));
  args.lse = lse_.place_of(transposed(host_lse_, tokens));
  args.stream = stream;
  return args;
}

Output StepTensors::output(const Problem& problem) const {
  out_.fetch();
  lse_.fetch();
  const std::int64_t tokens = problem.nnz_q();
  for (const double x : to_doubles(host_out_.whole().slice(0, tokens, tokens_)))
    if (!std::isnan(x)) {
      ADD_FAILURE() << "a row beyond the batch was written";
      break;
    }
  for (const double x : to_doubles(host_lse_.whole().slice(1, tokens, tokens_)))
    if (x != kLsePoison) {
      ADD_FAILURE() << "the LSE of a row beyond the batch was written";
      break;
    }
  return {to_doubles(written(host_out_, problem)), to_doubles(transposed(host_lse_, tokens))};
}

namespace {

constexpr std::int64_t kGuard = 256;
constexpr std::uint8_t kGuardByte = 0x5a, kDirt = 0xff;

}  // namespace

GuardedWorkspace::GuardedWorkspace(std::int64_t bytes)
    : bytes_(bytes), memory_(device_under_test(), bytes + 2 * kGuard) {
  memory_.fill(kGuardByte);
  const std::vector<std::uint8_t> dirt(static_cast<std::size_t>(bytes), kDirt);
  memory_.upload(dirt.data(), bytes, kGuard);
}

TensorView GuardedWorkspace::view() const {
  return TensorView(static_cast<std::byte*>(memory_.data()) + kGuard, DType::u8, {bytes_},
                    memory_.device());
}

bool GuardedWorkspace::guards_are_intact() const {
  std::vector<std::uint8_t> guards(2 * kGuard);
  memory_.download(guards.data(), kGuard, 0);
  memory_.download(guards.data() + kGuard, kGuard, kGuard + bytes_);
  return std::ranges::all_of(guards, [](std::uint8_t byte) { return byte == kGuardByte; });
}

namespace {

constexpr Heads kBlockerHeads{32, 8};
constexpr int kMeasured = 3;

std::int64_t blocker_tokens() {
  return backend_under_test() == BackendKind::cuda ? 8192 : 1;
}

AttentionConfig blocker_config() {
  AttentionConfig config;
  config.heads = kBlockerHeads;
  config.backend = backend_under_test();
  return config;
}

DeviceMemory rows(int heads, int dim, DType dtype) {
  const auto bytes = static_cast<std::int64_t>(size_of(dtype)) * heads * dim;
  DeviceMemory memory(device_under_test(), blocker_tokens() * bytes);
  memory.fill(0);
  return memory;
}

}  // namespace

Blocker::Blocker(const AttentionSpec& spec)
    : attention_(spec, blocker_config()),
      q_(rows(kBlockerHeads.qo, spec.head_dim_qk, spec.dtype_q)),
      k_(rows(kBlockerHeads.kv, spec.head_dim_qk, spec.dtype_kv)),
      v_(rows(kBlockerHeads.kv, spec.vo(), spec.dtype_kv)),
      out_(rows(kBlockerHeads.qo, spec.vo(), spec.dtype_o)) {}

void Blocker::run(DeviceStream& stream) {
  const AttentionSpec& spec = attention_.spec();
  const auto view = [&](const DeviceMemory& memory, DType dtype, int heads, int dim) {
    return TensorView(memory.data(), dtype, {blocker_tokens(), heads, dim}, memory.device());
  };
  RunArgs args;
  args.q = view(q_, spec.dtype_q, kBlockerHeads.qo, spec.head_dim_qk);
  args.k = view(k_, spec.dtype_kv, kBlockerHeads.kv, spec.head_dim_qk);
  args.v = view(v_, spec.dtype_kv, kBlockerHeads.kv, spec.vo());
  args.out = view(out_, spec.dtype_o, kBlockerHeads.qo, spec.vo());
  args.stream = stream.handle();
  attention_.run(args);
}

void Blocker::block(DeviceStream& stream, double milliseconds) {
  if (each_ms_ == 0) {
    attention_.plan_single(blocker_tokens(), blocker_tokens(), stream.handle());
    run(stream);
    DeviceTimer timer(device_under_test());
    timer.start(stream);
    for (int i = 0; i < kMeasured; ++i) run(stream);
    timer.stop(stream);
    each_ms_ = std::max(timer.microseconds() / 1000 / kMeasured, 0.05);
  }
  if (backend_under_test() != BackendKind::cuda) return;
  for (double queued = 0; queued < milliseconds; queued += each_ms_) run(stream);
}

}  // namespace trencadis::testing
