// Small plans of contiguous requests.
#pragma once

#include <trencadis/trencadis.h>

#include <cstdint>
#include <vector>

namespace trencadis::testing {

/// Lengths and a page table of 16-token pages; input() borrows from it.
struct Batch {
  Batch(const std::vector<std::int32_t>& queries, std::vector<std::int32_t> keys)
      : kv_lens(std::move(keys)) {
    for (const std::int32_t q : queries) qo_indptr.push_back(qo_indptr.back() + q);
    for (const std::int32_t l : kv_lens) kv_indptr.push_back(kv_indptr.back() + (l + 15) / 16);
  }
  PlanInput input() const {
    PlanInput input{.qo_indptr = qo_indptr, .kv_lens = kv_lens, .kv = {}, .kv_bounds = {}};
    input.kv.block_cols = 16;
    input.kv.indptr = kv_indptr;
    input.kv.kv_lens = kv_lens;
    return input;
  }

  std::vector<std::int32_t> qo_indptr{0}, kv_lens, kv_indptr{0};
};

inline AttentionSpec causal_spec() {
  AttentionSpec spec;
  spec.variant.bounds.right = 0;
  return spec;
}

/// A part of an H200: fewer CTAs, each as fast.
inline DeviceLimits device_of(int queues) {
  DeviceLimits device = known_device("h200");
  device.read_gbps *= static_cast<double>(queues) / device.num_ctas;
  device.matmul_tflops *= static_cast<double>(queues) / device.num_ctas;
  device.num_ctas = queues;
  return device;
}

}  // namespace trencadis::testing
