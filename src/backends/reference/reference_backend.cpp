#include "backends/reference/reference_backend.h"

#include <algorithm>
#include <vector>

#include "backends/reference/attention.h"
#include "backends/reference/stock_variants.h"
#include "base/check.h"
#include "base/float16.h"

namespace trencadis::engine {
namespace {

DeviceLimits reference_limits() {
  DeviceLimits limits;
  limits.name = "reference";
  limits.num_ctas = 1;
  limits.read_gbps = 10.0;
  limits.matmul_tflops = 0.001;
  limits.tile_memory = 1 << 20;
  limits.min_tensor_query_tile = 1;
  return limits;
}

DType dtype_of(contract::Storage storage) {
  switch (storage) {
    case contract::Storage::f32:
      return DType::f32;
    case contract::Storage::f16:
      return DType::f16;
    case contract::Storage::bf16:
      return DType::bf16;
  }
  base::fail(ErrorKind::internal, "storage type {} is unknown", static_cast<int>(storage));
}

TensorView strided(const void* data, contract::Storage storage,
                   std::initializer_list<std::int64_t> shape,
                   std::initializer_list<std::int64_t> strides) {
  return TensorView(const_cast<void*>(data), dtype_of(storage),
                    std::span(shape.begin(), shape.size()),
                    std::span(strides.begin(), strides.size()));
}

/// Which query tokens read which block row: all that the oracle takes from a plan. Its tiles,
/// queues, splits and merges are what the oracle is there to check.
struct RowTable {
  std::vector<std::int32_t> indptr{0};
  std::vector<std::int32_t> requests;
};

RowTable row_table(const contract::PlanView& plan, const contract::AttentionParams& params) {
  const std::int32_t group = params.num_qo_heads / params.num_kv_heads;
  RowTable rows;
  for (std::int32_t i = 0; i < plan.header->num_row_blocks; ++i) {
    const contract::RowBlock& block = plan.row_blocks()[i];
    const auto count = static_cast<std::size_t>(block.block_row) + 1;
    if (rows.requests.size() < count) {
      rows.requests.resize(count, 0);
      rows.indptr.resize(count + 1, 0);
    }
    rows.requests[count - 1] = block.request;
    const std::int32_t last_row = block.first_row + block.row_count - 1;
    const std::int32_t end = params.qo_indptr[block.request] + last_row / group + 1;
    rows.indptr[count] = std::max(rows.indptr[count], end);
  }
  // Block rows without query tokens have no row block, and end where the row before them does.
  for (std::size_t r = 1; r < rows.indptr.size(); ++r) {
    rows.indptr[r] = std::max(rows.indptr[r], rows.indptr[r - 1]);
  }
  return rows;
}

template <class T>
IndexSpan index_span(const T* data, std::size_t size) {
  return data == nullptr ? IndexSpan() : IndexSpan(std::span<const T>(data, size));
}

reference::Problem make_problem(const AttentionSpec& spec, const contract::AttentionParams& params,
                                const RowTable& rows) {
  reference::Problem problem;
  problem.heads = {params.num_qo_heads, params.num_kv_heads};
  const auto batch = static_cast<std::size_t>(params.batch);
  problem.qo_indptr = index_span(params.qo_indptr, batch + 1);
  problem.kv_lens = index_span(params.kv_lens, batch);

  const std::size_t block_rows = rows.requests.size();
  problem.kv.block_cols = params.kv.block_cols;
  problem.kv.row_indptr = rows.indptr;
  problem.kv.row_requests = rows.requests;
  problem.kv.indptr = index_span(params.kv.indptr, block_rows + 1);
  problem.kv.kv_lens = index_span(params.kv.kv_lens, block_rows);
  const auto blocks = block_rows == 0 ? 0 : static_cast<std::size_t>(params.kv.indptr[block_rows]);
  problem.kv.indices = index_span(params.kv.indices, blocks);
  problem.kv.positions = index_span(params.kv.positions, blocks);

  problem.q = strided(params.q, params.q_type,
                      {params.qo_indptr[batch], params.num_qo_heads, params.head_dim_qk},
                      {params.q_stride_token, params.q_stride_head, 1});
  // Kernels are not told how many pages the pool has, and nothing here reads the extent.
  constexpr std::int64_t kAnyBlocks = 0;
  problem.k = strided(params.k, params.kv_type,
                      {kAnyBlocks, params.kv.block_cols, params.num_kv_heads, params.head_dim_qk},
                      {params.k_stride_page, params.k_stride_token, params.k_stride_head, 1});
  problem.v = strided(params.v, params.kv_type,
                      {kAnyBlocks, params.kv.block_cols, params.num_kv_heads, params.head_dim_vo},
                      {params.v_stride_page, params.v_stride_token, params.v_stride_head, 1});

  problem.bounds = {params.bounds.left, params.bounds.right};
  problem.sm_scale = params.sm_scale;
  problem.use_softmax = params.use_softmax != 0;
  problem.lse_base = params.lse_base_two != 0 ? LseBase::two : LseBase::natural;
  if (params.sinks != nullptr) {
    problem.sinks.emplace(params.sinks, params.sinks + params.num_qo_heads);
  }
  problem.hooks =
      reference::stock_hooks(spec.variant, {params.variant.tensors, spec.variant.tensors.size()},
                             {params.variant.scalars, spec.variant.scalars.size()});
  return problem;
}

void store(void* data, contract::Storage storage, std::int64_t at, double value) {
  const auto narrow = static_cast<float>(value);
  switch (storage) {
    case contract::Storage::f32:
      static_cast<float*>(data)[at] = narrow;
      break;
    case contract::Storage::f16:
      static_cast<std::uint16_t*>(data)[at] = base::float_to_f16(narrow);
      break;
    case contract::Storage::bf16:
      static_cast<std::uint16_t*>(data)[at] = base::float_to_bf16(narrow);
      break;
  }
}

void store_result(const reference::Result& result, const contract::AttentionParams& params) {
  std::size_t o = 0, row = 0;
  for (std::int64_t token = 0; token < params.qo_indptr[params.batch]; ++token) {
    for (std::int64_t head = 0; head < params.num_qo_heads; ++head, ++row) {
      const std::int64_t start = token * params.o_stride_token + head * params.o_stride_head;
      for (std::int64_t d = 0; d < params.head_dim_vo; ++d) {
        store(params.o, params.o_type, start + d, result.out[o++]);
      }
      if (params.lse != nullptr) {
        params.lse[token * params.lse_stride_token + head * params.lse_stride_head] =
            static_cast<float>(result.lse[row]);
      }
    }
  }
}

class ReferenceExecutor final : public HostExecutor {
 public:
  explicit ReferenceExecutor(AttentionSpec spec)
      : spec_(std::move(spec)), limits_(reference_limits()) {}

  const DeviceLimits& limits() const override { return limits_; }

  void run(const contract::PlanView& plan, const contract::AttentionParams& params,
           void* /*stream*/) override {
    const RowTable rows = row_table(plan, params);
    store_result(reference::attention(make_problem(spec_, params, rows)), params);
  }

 private:
  AttentionSpec spec_;
  DeviceLimits limits_;
};

class ReferenceBackend final : public Backend {
 public:
  BackendInfo info() const override {
    BackendInfo info;
    info.kind = BackendKind::reference;
    info.name = "reference";
    info.available = true;
    info.detail = "float64 loops, one thread; an oracle, not an engine";
    info.devices = {reference_limits()};
    return info;
  }

  std::string can_implement(const AttentionSpec& spec,
                            const AttentionConfig& /*config*/) const override {
    for (const auto& [name, dtype] :
         {std::pair{"dtype_q", spec.dtype_q}, std::pair{"dtype_kv", spec.dtype_kv},
          std::pair{"dtype_o", spec.dtype_o}}) {
      if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16) {
        return fmt::format("{} is {}; supported: float32, float16, bfloat16", name,
                           to_string(dtype));
      }
    }
    return reference::unsupported_reason(spec.variant);
  }

  DeviceLimits device_limits(const AttentionSpec& /*spec*/,
                             const AttentionConfig& /*config*/) const override {
    return reference_limits();
  }

  std::unique_ptr<Executor> prepare(const AttentionSpec& spec,
                                    const AttentionConfig& /*config*/) override {
    return std::make_unique<ReferenceExecutor>(spec);
  }
};

}  // namespace

std::unique_ptr<Backend> make_reference_backend() {
  return std::make_unique<ReferenceBackend>();
}

}  // namespace trencadis::engine
