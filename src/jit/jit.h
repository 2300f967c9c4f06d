// Run-time compilation as the other rooms use it:
//
//   jit::KernelSource source{.name = "soft_cap", .text = ..., .symbols = {"my_ops"}, .abi = 1};
//   jit::LoadedKernel kernel = jit::load_host_kernel(source);  // throws trencadis::Error
//   const auto* ops = kernel.module->object<MyOps>("my_ops");  // valid for the process's life
#pragma once

#include "jit/kernel_cache.h"
#include "jit/kernel_source.h"
#include "jit/loader.h"
