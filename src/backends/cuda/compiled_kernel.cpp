#include "backends/cuda/compiled_kernel.h"

#include <utility>

#include "base/check.h"
#include "codegen/cuda_source.h"
#include "jit/artifact_cache.h"

namespace trencadis::cuda {
namespace {

DeviceModule load(const AttentionSpec& spec, const KernelPolicy& policy,
                  const ContextPointer& context) {
  const jit::KernelSource source = codegen::cuda_source(spec, policy.config);
  const jit::LoadedArtifact code = jit::load_device_kernel(source, policy.config.architecture);
  return DeviceModule(context, *code.artifact, source.name);
}

}  // namespace

CompiledKernel::CompiledKernel(const AttentionSpec& spec, const KernelPolicy& policy,
                               ContextPointer context)
    : context_(std::move(context)),
      module_(load(spec, policy, context_)),
      services_(prepare_services(spec, context_, policy.config.architecture)),
      attention_(module_.function(codegen::kAttentionSymbol)),
      merge_(module_.function(codegen::kMergeSymbol)),
      threads_(static_cast<unsigned>(policy.config.warps) * 32),
      overlaps_(context_->attribute(DeviceAttribute::compute_capability_major) >= 9) {
  const int bytes = module_.constant(codegen::kSharedBytesSymbol);
  const int most = context_->attribute(DeviceAttribute::max_shared_memory_per_block_optin);
  if (bytes > most)
    base::fail(ErrorKind::not_supported,
               "the kernel needs {} bytes of shared memory, a CTA of device {} has {}", bytes,
               context_->ordinal(), most);
  const ContextGuard guard(*context_);
  context_->driver().func_set_attribute(attention_,
                                        FunctionAttribute::max_dynamic_shared_size_bytes, bytes);
  shared_bytes_ = static_cast<unsigned>(bytes);
}

}  // namespace trencadis::cuda
