#include "backends/cuda/compiled_kernel.h"

#include <string_view>
#include <utility>

#include "base/check.h"
#include "codegen/cuda_architecture.h"
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

/// Only code for sm_90 and later waits for the launch before it; what a device could do does not
/// count where it runs older code.
bool may_overlap(std::string_view architecture) {
  const codegen::CudaArchitecture* found = codegen::find_cuda_architecture(architecture);
  return found != nullptr && found->major >= 9;
}

}  // namespace

CompiledKernel::CompiledKernel(const AttentionSpec& spec, const KernelPolicy& policy,
                               ContextPointer context)
    : context_(std::move(context)),
      module_(load(spec, policy, context_)),
      services_(prepare_services(spec, context_, policy.config.architecture)),
      attention_(module_.function(codegen::kAttentionSymbol)),
      threads_(static_cast<unsigned>(policy.config.threads())),
      counts_in_units_(policy.config.producer_warps > 0),
      overlaps_(may_overlap(policy.config.architecture)) {
  const int bytes = module_.constant(codegen::kSharedBytesSymbol);
  const int most = context_->attribute(DeviceAttribute::max_shared_memory_per_block_optin);
  if (bytes > most)
    base::fail(ErrorKind::not_supported,
               "the kernel needs {} bytes of shared memory, a CTA of device {} has {}", bytes,
               context_->ordinal(), most);
  const ContextGuard guard(*context_);
  context_->driver().func_set_attribute(attention_.function,
                                        FunctionAttribute::max_dynamic_shared_size_bytes, bytes);
  shared_bytes_ = static_cast<unsigned>(bytes);
}

}  // namespace trencadis::cuda
