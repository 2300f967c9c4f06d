#include "engine/run_arguments.h"

#include <algorithm>

#include "base/check.h"
#include "engine/argument.h"

namespace trencadis::engine {
namespace {

using base::check;
using base::fail;

struct PoolStrides {
  std::int64_t page, token, head;
};

/// Keys or values: pages of rank 4, or tokens of rank 3 of which B_c neighbours make a block.
PoolStrides bind_pool(const char* name, const TensorView& pool, const AttentionSpec& spec,
                      const AttentionConfig& config, Device device, const PlanFacts& facts,
                      std::int64_t head_dim, const char* dim_name) {
  const Argument argument(name, pool);
  const bool paged = pool.rank() == 4;
  const bool nhd = config.layout == KvLayout::nhd;
  argument.expect(spec.dtype_kv, device, paged ? 4 : 3);
  const int first = paged ? 1 : 0;  // token and head follow the page where there is one
  const int token = nhd ? first : first + 1;
  const int head = nhd ? first + 1 : first;
  argument.expect_size(head, config.heads.kv, "num_kv_heads");
  argument.expect_size(pool.rank() - 1, head_dim, dim_name);
  argument.expect_unit_stride();
  if (paged) {
    argument.expect_size(token, facts.block_cols, "page_size");
    argument.expect_at_least(0, facts.blocks_used, "pages, as the plan's page ids need,");
    return {pool.stride(0), pool.stride(token), pool.stride(head)};
  }
  argument.expect_at_least(token, facts.tokens_used, "tokens, as the plan reads,");
  return {pool.stride(token) * facts.block_cols, pool.stride(token), pool.stride(head)};
}

void bind_queries_and_outputs(const AttentionSpec& spec, const AttentionConfig& config,
                              Device device, const PlanFacts& facts, const RunArgs& args,
                              contract::AttentionParams& params) {
  const Argument q("q", args.q);
  q.expect(spec.dtype_q, device, 3);
  q.expect_size(0, facts.nnz_q, "qo_indptr[-1]");
  q.expect_size(1, config.heads.qo, "num_qo_heads");
  q.expect_size(2, spec.head_dim_qk, "head_dim_qk");
  q.expect_unit_stride();
  params.q = args.q.data();
  params.q_stride_token = args.q.stride(0);
  params.q_stride_head = args.q.stride(1);

  const Argument out("out", args.out);
  out.expect(spec.dtype_o, device, 3);
  out.expect_size(0, facts.nnz_q, "qo_indptr[-1]");
  out.expect_size(1, config.heads.qo, "num_qo_heads");
  out.expect_size(2, spec.vo(), "head_dim_vo");
  out.expect_unit_stride();
  params.o = args.out.data();
  params.o_stride_token = args.out.stride(0);
  params.o_stride_head = args.out.stride(1);

  params.lse = nullptr;
  params.lse_stride_token = params.lse_stride_head = 0;
  if (!args.lse.defined()) return;
  if (!spec.variant.use_softmax) [[unlikely]]
    fail(ErrorKind::not_supported,
         "lse is given, but the variant '{}' has use_softmax = false and so no LSE",
         spec.variant.functor);
  const Argument lse("lse", args.lse);
  lse.expect(DType::f32, device, 2);
  lse.expect_size(0, facts.nnz_q, "qo_indptr[-1]");
  lse.expect_size(1, config.heads.qo, "num_qo_heads");
  params.lse = args.lse.data_as<float>();
  params.lse_stride_token = args.lse.stride(0);
  params.lse_stride_head = args.lse.stride(1);
}

void bind_variant(const AttentionSpec& spec, const AttentionConfig& config, Device device,
                  const RunArgs& args, contract::AttentionParams& params) {
  const Variant& variant = spec.variant;
  params.sinks = nullptr;
  if (variant.sinks) {
    const Argument sinks("sinks", args.sinks);
    sinks.expect(DType::f32, device, 1);
    sinks.expect_size(0, config.heads.qo, "num_qo_heads");
    sinks.expect_contiguous();
    params.sinks = args.sinks.data_as<float>();
  } else {
    check(!args.sinks.defined(), "sinks is {}, but the spec's variant '{}' has no sinks",
          args.sinks, variant.functor);
  }

  check(args.tensors.size() == variant.tensors.size(),
        "tensors has {} entries, expected {} as the variant '{}' declares", args.tensors.size(),
        variant.tensors.size(), variant.functor);
  for (std::size_t i = 0; i < args.tensors.size(); ++i) {
    const Argument extra(variant.tensors[i].name.c_str(), args.tensors[i]);
    extra.expect(variant.tensors[i].dtype, device, args.tensors[i].rank());
    extra.expect_contiguous();
    params.variant.tensors[i] = args.tensors[i].data();
  }
  check(args.scalars.empty() || args.scalars.size() == variant.scalars.size(),
        "scalars has {} entries, expected none or {} as the variant '{}' declares",
        args.scalars.size(), variant.scalars.size(), variant.functor);
  for (std::size_t i = 0; i < variant.scalars.size(); ++i)
    params.variant.scalars[i] = args.scalars.empty() ? variant.scalars[i].value : args.scalars[i];
}

}  // namespace

void bind_arguments(const AttentionSpec& spec, const AttentionConfig& config, Device device,
                    const PlanFacts& facts, const RunArgs& args,
                    contract::AttentionParams& params) {
  bind_queries_and_outputs(spec, config, device, facts, args, params);
  const PoolStrides k =
      bind_pool("k", args.k, spec, config, device, facts, spec.head_dim_qk, "head_dim_qk");
  params.k = args.k.data();
  params.k_stride_page = k.page;
  params.k_stride_token = k.token;
  params.k_stride_head = k.head;
  const PoolStrides v =
      bind_pool("v", args.v, spec, config, device, facts, spec.vo(), "head_dim_vo");
  params.v = args.v.data();
  params.v_stride_page = v.page;
  params.v_stride_token = v.token;
  params.v_stride_head = v.head;
  bind_variant(spec, config, device, args, params);
}

std::int64_t pool_tokens(const AttentionConfig& config, const RunArgs& args) {
  const auto tokens = [&](const TensorView& pool) {
    if (pool.rank() == 4) return pool.size(0) * config.page_size;
    return pool.size(config.layout == KvLayout::nhd ? 0 : 1);
  };
  return std::min(tokens(args.k), tokens(args.v));
}

}  // namespace trencadis::engine
