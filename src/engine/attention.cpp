#include <trencadis/attention.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "base/check.h"
#include "base/env.h"
#include "engine/registry.h"
#include "engine/run_arguments.h"
#include "engine/stock_arguments.h"
#include "engine/validate.h"
#include "planner/plan_impl.h"
#include "planner/planner.h"
#include "planner/workspace.h"

namespace trencadis {
namespace {

using base::check;
using base::fail;

bool has_limits(const Limits& limits) {
  return limits.max_qo_tokens > 0;
}

contract::Storage storage_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return contract::Storage::f32;
    case DType::f16:
      return contract::Storage::f16;
    case DType::bf16:
      return contract::Storage::bf16;
    default:
      fail(ErrorKind::not_supported,
           "dtype {} cannot be stored, expected float32, float16, bfloat16", to_string(dtype));
  }
}

/// What no step and no layer changes.
contract::AttentionParams constant_params(const AttentionSpec& spec,
                                          const AttentionConfig& config) {
  contract::AttentionParams params{};
  params.q_type = storage_of(spec.dtype_q);
  params.kv_type = storage_of(spec.dtype_kv);
  params.o_type = storage_of(spec.dtype_o);
  params.num_qo_heads = config.heads.qo;
  params.num_kv_heads = config.heads.kv;
  params.head_dim_qk = spec.head_dim_qk;
  params.head_dim_vo = spec.vo();
  params.use_softmax = spec.variant.use_softmax ? 1 : 0;
  params.lse_base_two = spec.lse_base == LseBase::two ? 1 : 0;
  params.bounds = {spec.variant.bounds.left, spec.variant.bounds.right};
  params.sm_scale = static_cast<float>(config.sm_scale == 0.0
                                           ? 1.0 / std::sqrt(static_cast<double>(spec.head_dim_qk))
                                           : config.sm_scale);
  return params;
}

/// Memory for plans and partial states: the caller's, or the executor's own, which grows where no
/// limits are set.
class Workspace {
 public:
  Workspace(const TensorView& given, engine::Executor& executor, Device device)
      : given_(given), executor_(executor) {
    if (given_.defined() && given_.device() != device)
      fail(ErrorKind::type_mismatch, "workspace is {}, expected a tensor on {}", given_,
           to_string(device));
    if (given_.defined()) data_ = given_.data_as<std::byte>();
  }

  /// At least `bytes`. Throws Error(out_of_capacity) where the caller's is smaller.
  void require(std::int64_t bytes) {
    if (!given_.defined()) {
      data_ = executor_.reserve(bytes);
    } else if (given_.num_elements() < bytes) {
      fail(ErrorKind::out_of_capacity,
           "workspace is too small: {} bytes are needed, {} are available; "
           "Attention::workspace_bytes(spec, config) says what suffices for the limits",
           bytes, given_.num_elements());
    }
  }

  std::byte* data() const { return data_; }

 private:
  TensorView given_;
  engine::Executor& executor_;
  std::byte* data_ = nullptr;
};

}  // namespace

struct Attention::Impl {
  Impl(const AttentionSpec& s, const AttentionConfig& c)
      : spec(s),
        config(c),
        chosen(engine::choose_backend(spec, config)),
        executor(chosen.backend->prepare(spec, config)),
        planner(spec, config.heads, executor->limits(), config.plan),
        workspace(config.workspace, *executor, device()),
        params(constant_params(spec, config)),
        stock_arguments(spec, config.heads) {
    if (!has_limits(config.limits)) return;
    layout = planner::workspace_bound(planner.config(), config.limits, config.page_size, travels());
    workspace.require(layout.total_bytes);
  }

  /// Where tensors must be.
  Device device() const {
    if (chosen.kind == BackendKind::cuda) return {DeviceKind::cuda, config.device_index};
    return {DeviceKind::cpu, 0};
  }

  planner::Travels travels() const {
    return executor->copies_plans() ? planner::Travels::yes : planner::Travels::no;
  }

  void plan(const PlanInput& input, void* stream);
  void check_plan(const Plan::Impl& plan, const RunArgs& args);
  planner::WorkspaceLayout accept(const PlanInput& input, const Plan& next,
                                  engine::PlanFacts& facts);
  contract::AttentionParams params_of(const Plan& plan,
                                      const planner::WorkspaceLayout& plan_layout) const;

  AttentionSpec spec;
  AttentionConfig config;
  const engine::RegisteredBackend& chosen;
  std::unique_ptr<engine::Executor> executor;
  planner::Planner planner;
  Workspace workspace;
  planner::WorkspaceLayout layout;
  contract::AttentionParams params;
  engine::StockArguments stock_arguments;

  // The plan in force and the one that is being made: an error leaves the former as it was.
  std::array<Plan, 2> plans;
  std::size_t current = 0;
  bool planned = false;
  engine::PlanFacts facts;

  // What the short forms of plan() are made into.
  PlanInput table;
  std::array<std::int64_t, 2> single_qo_indptr{}, single_kv_indptr{};
  std::int64_t single_kv_len = 0;
};

void Attention::Impl::plan(const PlanInput& input, void* stream) {
  check(input.kv.block_cols == config.page_size,
        "kv.block_cols is {}, expected page_size = {} as the config says", input.kv.block_cols,
        config.page_size);
  executor->check_stream(stream);
  Plan& next = plans[1 - current];
  planner.plan(input, config.limits, next);
  engine::PlanFacts next_facts;
  const planner::WorkspaceLayout next_layout = accept(input, next, next_facts);
  const contract::AttentionParams next_params = params_of(next, next_layout);
  executor->submit(next.impl().buffer.view(), next_params, workspace.data(), stream);
  // Nothing below throws.
  layout = next_layout;
  facts = next_facts;
  params = next_params;
  current = 1 - current;
  planned = true;
}

/// Everything that can still refuse a plan that the planner made.
planner::WorkspaceLayout Attention::Impl::accept(const PlanInput& input, const Plan& next,
                                                 engine::PlanFacts& next_facts) {
  next_facts = engine::read_block_table(next.impl().problem, input.kv.indices.empty());
  // run() checks each id then and names its request; these would refuse the pool without.
  if (config.debug_checks) next_facts.blocks_used = next_facts.tokens_used = 0;
  if (has_limits(config.limits)) {
    base::ensure(planner::fits(next, layout, travels()),
                 "a plan within the limits exceeds the workspace bound");
    return layout;
  }
  const planner::WorkspaceLayout needed = planner::workspace_of(next, travels());
  workspace.require(needed.total_bytes);
  return needed;
}

contract::AttentionParams Attention::Impl::params_of(
    const Plan& plan, const planner::WorkspaceLayout& plan_layout) const {
  const planner::Problem& problem = plan.impl().problem;
  contract::AttentionParams next = params;
  next.batch = problem.num_requests();
  next.qo_indptr = problem.qo_indptr();
  next.kv_lens = problem.kv_lens();
  next.kv = problem.kv();
  next.partial_o = reinterpret_cast<float*>(workspace.data() + plan_layout.partial_o_offset);
  next.partial_lse = reinterpret_cast<float*>(workspace.data() + plan_layout.partial_lse_offset);
  return next;
}

void Attention::Impl::check_plan(const Plan::Impl& plan, const RunArgs& args) {
  const std::int64_t tokens = engine::pool_tokens(config, args);
  if (executor->copies_plans())
    executor->check_submitted(plan.buffer.view(), tokens, args.stream);
  else
    engine::check_block_ids(plan.problem, tokens);
}

Attention::Attention(const AttentionSpec& spec, const AttentionConfig& config) {
  engine::validate(spec, config);
  AttentionConfig chosen = config;
  chosen.debug_checks = config.debug_checks || base::environment_flag("TRENCADIS_DEBUG_CHECKS");
  impl_ = std::make_unique<Impl>(spec, chosen);
}

Attention::~Attention() = default;
Attention::Attention(Attention&&) noexcept = default;
Attention& Attention::operator=(Attention&&) noexcept = default;

void Attention::plan(const PlanInput& input, void* stream) {
  impl_->plan(input, stream);
}

void Attention::plan(IndexSpan qo_indptr, IndexSpan kv_indptr, IndexSpan kv_indices,
                     IndexSpan kv_lens, void* stream) {
  PlanInput& input = impl_->table;
  input.qo_indptr = qo_indptr;
  input.kv_lens = kv_lens;
  input.kv.block_cols = impl_->config.page_size;
  input.kv.indptr = kv_indptr;
  input.kv.indices = kv_indices;
  input.kv.kv_lens = kv_lens;
  impl_->plan(input, stream);
}

void Attention::plan_single(std::int64_t num_qo_tokens, std::int64_t num_kv_tokens, void* stream) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  check(num_qo_tokens >= 0 && num_qo_tokens <= kMost, "num_qo_tokens is {}, expected 0 to {}",
        num_qo_tokens, kMost);
  check(num_kv_tokens >= 0 && num_kv_tokens <= kMost, "num_kv_tokens is {}, expected 0 to {}",
        num_kv_tokens, kMost);
  Impl& self = *impl_;
  const std::int64_t page_size = self.config.page_size;
  self.single_qo_indptr = {0, num_qo_tokens};
  self.single_kv_indptr = {0, num_kv_tokens / page_size + (num_kv_tokens % page_size != 0)};
  self.single_kv_len = num_kv_tokens;
  const auto span = [](const auto& values) {
    return IndexSpan(std::span<const std::int64_t>(values));
  };
  const IndexSpan kv_lens(std::span<const std::int64_t>(&self.single_kv_len, 1));
  plan(span(self.single_qo_indptr), span(self.single_kv_indptr), {}, kv_lens, stream);
}

void Attention::run(const RunArgs& args) {
  Impl& self = *impl_;
  check(self.planned, "run() was called before plan()");
  const Device device = self.device();
  engine::bind_arguments(self.spec, self.config, device, self.facts, args, self.params);
  self.stock_arguments.check(args.tensors, self.params, self.facts.nnz_q,
                             device.kind == DeviceKind::cpu);
  const Plan::Impl& plan = self.plans[self.current].impl();
  if (self.config.debug_checks) [[unlikely]]
    self.check_plan(plan, args);
  self.params.kv.blocks = self.facts.blocks_used;
  self.executor->run(plan.buffer.view(), self.params, args.stream);
}

const AttentionSpec& Attention::spec() const {
  return impl_->spec;
}
const AttentionConfig& Attention::config() const {
  return impl_->config;
}
BackendKind Attention::backend() const {
  return impl_->chosen.kind;
}
const DeviceLimits& Attention::device_limits() const {
  return impl_->executor->limits();
}

const Plan& Attention::current_plan() const {
  check(impl_->planned, "there is no plan yet: call plan() first");
  return impl_->plans[impl_->current];
}

std::string Attention::explain() const {
  return current_plan().explain();
}

std::int64_t Attention::workspace_bytes(const AttentionSpec& spec, const AttentionConfig& config) {
  engine::validate(spec, config);
  const engine::RegisteredBackend& chosen = engine::choose_backend(spec, config);
  const DeviceLimits device = chosen.backend->device_limits(spec, config);
  const planner::Planner planner(spec, config.heads, device, config.plan);
  const auto travels =
      chosen.kind == BackendKind::cuda ? planner::Travels::yes : planner::Travels::no;
  return planner::workspace_bound(planner.config(), config.limits, config.page_size, travels)
      .total_bytes;
}

}  // namespace trencadis
