// The kernels of pages, of the public merge and of the debug mode, for every form and types of each
// width: they are compiled, never run.
#include "cuda/entry/append.h"
#include "cuda/entry/check_plan.h"
#include "cuda/entry/copy_pages.h"
#include "cuda/entry/merge_states.h"

namespace trencadis {

using collective::PairOfStates;
using collective::RaggedStates;
using collective::StackedStates;
using ptx::BFloat;
using ptx::Half;

extern "C" {

__global__ void append_bf16(const contract::AppendParams params) {
  entry::append<BFloat, BFloat>(params);
}
__global__ void append_f32_f16(const contract::AppendParams params) {
  entry::append<float, Half>(params);
}
__global__ void gather_bf16(const contract::PagedTokens params) {
  entry::gather<BFloat, BFloat>(params);
}
__global__ void gather_f16_f32(const contract::PagedTokens params) {
  entry::gather<Half, float>(params);
}
__global__ void copy_pages_bf16(const contract::CopyPagesParams params) {
  entry::copy_pages<BFloat, BFloat>(params);
}
__global__ void copy_pages_f16_bf16(const contract::CopyPagesParams params) {
  entry::copy_pages<Half, BFloat>(params);
}
__global__ void copy_pages_f32(const contract::CopyPagesParams params) {
  entry::copy_pages<float, float>(params);
}
__global__ void merge_pair_bf16(const contract::MergeStatesParams params) {
  entry::merge_states<BFloat, BFloat, PairOfStates>(params);
}
__global__ void merge_pair_f32(const contract::MergeStatesParams params) {
  entry::merge_states<float, float, PairOfStates>(params);
}
__global__ void merge_stacked_f32_bf16(const contract::MergeStatesParams params) {
  entry::merge_states<float, BFloat, StackedStates>(params);
}
__global__ void merge_ragged_f32_f16(const contract::MergeStatesParams params) {
  entry::merge_states<float, Half, RaggedStates>(params);
}
__global__ void merge_ragged_f16(const contract::MergeStatesParams params) {
  entry::merge_states<Half, Half, RaggedStates>(params);
}
__global__ void check_plan(const contract::CheckPlanParams params) {
  entry::check_plan(params);
}

}  // extern "C"

}  // namespace trencadis
