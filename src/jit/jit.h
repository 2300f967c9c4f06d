// Run-time compilation as the other rooms use it:
//
//   jit::KernelSource source{.name = "soft_cap", .text = ..., .symbols = {"my_ops"}, .abi = 1};
//   jit::LoadedKernel kernel = jit::load_host_kernel(source);  // throws trencadis::Error
//   const auto* ops = kernel.module->object<MyOps>("my_ops");  // valid for the process's life
//
//   source.language = jit::Language::cuda_cpp;
//   jit::LoadedArtifact cubin = jit::load_device_kernel(source, "sm_90a");  // bytes
#pragma once

#include "jit/artifact_cache.h"
#include "jit/kernel_cache.h"
#include "jit/kernel_source.h"
#include "jit/loader.h"
