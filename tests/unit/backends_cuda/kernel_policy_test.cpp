// Which kernel a spec gets: what the kernels demand of their tiles, and that planner and kernel
// agree on them.
#include "backends/cuda/kernel_policy.h"

#include <gtest/gtest.h>
#include <trencadis/plan.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/shared_memory.h"
#include "fixture.h"
#include "planner/plan_impl.h"
#include "planner/tile_policy.h"
#include "support/expect_error.h"

namespace trencadis::cuda {
namespace {

using codegen::CudaArchitecture;
using testing::expect_error;

struct Dims {
  int qk, vo;
};
constexpr Dims kDims[] = {{64, 64},   {80, 80},   {96, 96},  {128, 128},
                          {192, 128}, {256, 256}, {512, 512}};
constexpr DType kDtypes[] = {DType::f16, DType::bf16, DType::f32};
constexpr const char* kTemplateVariable = "TRENCADIS_CUDA_TEMPLATE";

AttentionSpec spec_of(Dims dims, DType dtype) {
  AttentionSpec spec;
  spec.head_dim_qk = dims.qk;
  spec.head_dim_vo = dims.vo;
  spec.dtype_q = spec.dtype_kv = spec.dtype_o = dtype;
  return spec;
}

/// Whether a CTA holds one query row and two stages of the fewest keys, beside 10 KiB of tables.
bool has_room(const CudaArchitecture& architecture, const AttentionSpec& spec) {
  return planner::tile_bytes(spec, {1, 32}) <= architecture.max_cta_shared_memory - 10 * 1024;
}

bool multiplies(const CudaArchitecture& architecture, DType dtype) {
  return dtype != DType::bf16 || architecture.major >= 8;
}

template <class Visit>
void for_each_policy(const Visit& visit) {
  for (const char* name : {"portable", "hopper"}) {
    const ScopedVariable variable(kTemplateVariable, name);
    for (const CudaArchitecture& architecture : codegen::cuda_architectures()) {
      for (const Dims& dims : kDims) {
        for (const DType dtype : kDtypes) {
          if (!multiplies(architecture, dtype)) continue;
          SCOPED_TRACE(std::string(name) + " " + std::string(architecture.name) + " " +
                       std::to_string(dims.qk) + "/" + std::to_string(dims.vo) + " " +
                       std::string(to_string(dtype)));
          const AttentionSpec spec = spec_of(dims, dtype);
          if (!has_room(architecture, spec)) {
            expect_error(ErrorKind::not_supported,
                         {"head dims " + std::to_string(dims.qk), "bytes for the smallest tiles"},
                         [&] { kernel_policy(spec, architecture); });
            continue;
          }
          visit(spec, architecture, kernel_policy(spec, architecture));
        }
      }
    }
  }
}

bool is_hopper(const KernelPolicy& policy) {
  return policy.config.producer_warps > 0;
}

/// The assertions of collective/shape.h and collective/vector_loop.h.
void expect_shareable(const contract::TileClass& tile, int warps) {
  const int threads = 32 * warps;
  EXPECT_LE(tile.kv_tokens, threads);
  if (tile.q_rows == 1) {
    EXPECT_EQ(threads % tile.kv_tokens, 0);
    EXPECT_EQ(tile.kv_tokens % 32, 0);
    return;
  }
  const int query_warps = std::min(warps, tile.q_rows / 16);
  ASSERT_GT(query_warps, 0);
  const int kv_warps = std::min(warps / query_warps, tile.kv_tokens / 16);
  EXPECT_EQ(tile.q_rows % (16 * query_warps), 0);
  EXPECT_EQ(tile.kv_tokens % (16 * kv_warps), 0);
  EXPECT_GE(tile.kv_tokens, 16 * kv_warps);
}

/// The assertions of collective/ring_layout.h, small_loop.h and warpgroup_loop.h.
void expect_ring(const codegen::CudaKernelConfig& config) {
  EXPECT_EQ(config.warps, 8) << "two warpgroups that multiply";
  EXPECT_EQ(config.producer_warps, 4);
  EXPECT_EQ(config.ctas_per_sm, 1);
  EXPECT_GE(config.query_buffers, 1);
  EXPECT_LE(config.query_buffers, 2);
  ASSERT_EQ(config.classes.size(), 2u);
  ASSERT_EQ(config.stages.size(), 2u);
  EXPECT_EQ(config.classes[0].q_rows, 16);
  EXPECT_EQ(config.classes[1].q_rows, 128);
  EXPECT_EQ(config.classes[0].kv_tokens, config.classes[1].kv_tokens) << "they share the ring";
  EXPECT_TRUE(config.classes[0].kv_tokens == 64 || config.classes[0].kv_tokens == 128);
  EXPECT_EQ(config.stages[0], config.stages[1]);
  EXPECT_GE(config.stages[0], 4);
  EXPECT_LE(config.stages[0], 8);
}

/// Of a thread, where as many CTAs as the config says share a multiprocessor's, which are dealt in
/// eights. No kernel is written for fewer than 168.
void expect_registers(const codegen::CudaKernelConfig& config) {
  const int registers = 65536 / (config.threads() * config.ctas_per_sm) / 8 * 8;
  EXPECT_GE(registers, 168);
}

TEST(KernelPolicy, TilesAreWhatTheWarpsOfACtaCanShare) {
  for_each_policy([](const AttentionSpec& spec, const CudaArchitecture& architecture,
                     const KernelPolicy& policy) {
    EXPECT_EQ(policy.config.architecture, architecture.name);
    EXPECT_GE(policy.config.ctas_per_sm, 1);
    ASSERT_FALSE(policy.config.classes.empty());
    ASSERT_EQ(policy.config.stages.size(), policy.config.classes.size());
    if (is_hopper(policy)) {
      expect_ring(policy.config);
    } else {
      for (const int stages : policy.config.stages) EXPECT_GE(stages, 2);
      for (const contract::TileClass& tile : policy.config.classes) {
        SCOPED_TRACE(std::to_string(tile.q_rows) + " by " + std::to_string(tile.kv_tokens));
        expect_shareable(tile, policy.config.warps);
        if (spec.dtype_kv == DType::f32) {
          EXPECT_EQ(tile.q_rows, 1);
        }
      }
    }
    expect_registers(policy.config);
    // The driver takes a KiB of each CTA, and a multiprocessor has one more than a CTA may ask for.
    const std::int64_t bytes = shared_bytes(spec, policy.config) + 1024;
    EXPECT_LE(bytes * policy.config.ctas_per_sm, architecture.max_cta_shared_memory + 1024);
  });
}

TEST(KernelPolicy, ThePlannerChoosesTheKernelsClasses) {
  const std::vector<std::int32_t> qo_indptr{0, 1, 30}, kv_lens{100, 40}, indptr{0, 7, 10};
  const std::vector<std::int32_t> indices{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  PlanInput input;
  input.qo_indptr = qo_indptr;
  input.kv_lens = input.kv.kv_lens = kv_lens;
  input.kv.indptr = indptr;
  input.kv.indices = indices;
  input.kv.block_cols = 16;
  for_each_policy(
      [&](const AttentionSpec& spec, const CudaArchitecture&, const KernelPolicy& policy) {
        // As the backend fills in what is the device's own.
        DeviceLimits device = policy.tiles;
        device.name = "cuda:0";
        device.num_ctas = 132 * policy.config.ctas_per_sm;
        device.read_gbps = 4600;
        const Plan plan = make_plan(spec, {8, 2}, device, input);
        const contract::PlanHeader& header = *plan.impl().buffer.view().header;
        ASSERT_EQ(header.num_tile_classes, static_cast<int>(policy.config.classes.size()));
        for (int i = 0; i < header.num_tile_classes; ++i) {
          const contract::TileClass& tile = policy.config.classes[static_cast<std::size_t>(i)];
          EXPECT_EQ(header.tile_classes[i].q_rows, tile.q_rows);
          EXPECT_EQ(header.tile_classes[i].kv_tokens, tile.kv_tokens);
        }
      });
}

const CudaArchitecture& architecture_named(const char* name) {
  return *codegen::find_cuda_architecture(name);
}

TEST(KernelPolicy, Sm90aGetsTheHopperTemplateForRowsOfWholeSlabs) {
  const CudaArchitecture& hopper = architecture_named("sm_90a");
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const Dims& dims : {Dims{64, 64}, Dims{128, 128}, Dims{192, 128}, Dims{192, 192},
                             Dims{64, 256}, Dims{256, 256}}) {
      SCOPED_TRACE(std::to_string(dims.qk) + "/" + std::to_string(dims.vo));
      EXPECT_TRUE(is_hopper(kernel_policy(spec_of(dims, dtype), hopper)));
    }
    for (const Dims& dims :
         {Dims{80, 80}, Dims{64, 40}, Dims{96, 64}, Dims{320, 320}, Dims{512, 512}}) {
      SCOPED_TRACE(std::to_string(dims.qk) + "/" + std::to_string(dims.vo));
      EXPECT_FALSE(is_hopper(kernel_policy(spec_of(dims, dtype), hopper)));
    }
  }
  EXPECT_FALSE(is_hopper(kernel_policy(spec_of({128, 128}, DType::f32), hopper)));
}

TEST(KernelPolicy, NoOtherArchitectureGetsTheHopperTemplate) {
  const ScopedVariable variable(kTemplateVariable, "hopper");
  for (const CudaArchitecture& architecture : codegen::cuda_architectures()) {
    EXPECT_EQ(is_hopper(kernel_policy(spec_of({128, 128}, DType::f16), architecture)),
              architecture.name == "sm_90a")
        << architecture.name;
  }
}

TEST(KernelPolicy, FunctorsDecideWhetherTheHopperTemplateTakesThem) {
  const auto gets_hopper = [](const Variant& variant) {
    AttentionSpec spec = spec_of({128, 128}, DType::bf16);
    spec.variant = variant;
    return is_hopper(kernel_policy(spec, architecture_named("sm_90a")));
  };
  using variants::softmax;
  EXPECT_TRUE(gets_hopper(softmax({.causal = true, .window_left = 100, .sinks = true})));
  EXPECT_TRUE(gets_hopper(softmax({.soft_cap = 30.0, .alibi = true})));
  EXPECT_TRUE(gets_hopper(variants::sigmoid({.bias = -3.0})));
  EXPECT_FALSE(gets_hopper(softmax({.custom_mask = true})));
  EXPECT_FALSE(gets_hopper(softmax({.prefix_lm = true})));
  EXPECT_FALSE(gets_hopper(softmax({.document_mask = true})));
  EXPECT_FALSE(gets_hopper(softmax({.rope = variants::Rope{}})));
  EXPECT_FALSE(gets_hopper(softmax({.soft_cap = 30.0, .document_mask = true})));
  EXPECT_FALSE(gets_hopper(variants::custom("Mine", "struct Mine {};")));
}

TEST(KernelPolicy, TheEnvironmentChoosesTheTemplate) {
  const CudaArchitecture& hopper = architecture_named("sm_90a");
  const AttentionSpec spec = spec_of({128, 128}, DType::bf16);
  for (const auto& [name, expected] :
       {std::pair{"", true}, {"hopper", true}, {"portable", false}}) {
    const ScopedVariable variable(kTemplateVariable, name);
    EXPECT_EQ(is_hopper(kernel_policy(spec, hopper)), expected) << name;
  }
  const ScopedVariable variable(kTemplateVariable, "blackwell");
  expect_error(ErrorKind::invalid_argument,
               {"TRENCADIS_CUDA_TEMPLATE is 'blackwell', expected portable or hopper"},
               [&] { kernel_policy(spec, hopper); });
}

TEST(KernelPolicy, WhatNoKernelTakesIsRefusedInWords) {
  const CudaArchitecture& turing = *codegen::find_cuda_architecture("sm_75");
  const CudaArchitecture& hopper = *codegen::find_cuda_architecture("sm_90a");
  expect_error(ErrorKind::not_supported, {"dtype_kv is bfloat16", "sm_75", "sm_80"}, [&] {
    kernel_policy(spec_of({128, 128}, DType::bf16), turing);
  });
  for (const Dims& dims : {Dims{20, 20}, Dims{520, 520}, Dims{8, 8}, Dims{128, 20}}) {
    const int wrong = dims.qk == 128 ? dims.vo : dims.qk;
    expect_error(ErrorKind::not_supported,
                 {"a head dim is " + std::to_string(wrong), "16 to 512 in steps of 8"},
                 [&] { kernel_policy(spec_of(dims, DType::f16), hopper); });
  }
  AttentionSpec mixed = spec_of({128, 128}, DType::f16);
  mixed.dtype_kv = DType::bf16;
  expect_error(ErrorKind::not_supported, {"dtype_q is float16", "dtype_kv is bfloat16"},
               [&] { kernel_policy(mixed, hopper); });
}

}  // namespace
}  // namespace trencadis::cuda
