// Kernels of a few lines for NVRTC, with a header room of their own.
#pragma once

#include <array>
#include <string>

#include "jit/kernel_source.h"

namespace trencadis::jit {

inline constexpr std::array kStubHeaders = {
    EmbeddedFile{"stub/units.h",
                 "#pragma once\n"
                 "#include <cstddef>\n"
                 "#include <cstdint>\n"
                 "static_assert(sizeof(std::int64_t) == 8 && sizeof(std::uint32_t) == 4);\n"
                 "static_assert(sizeof(std::size_t) == 8 && sizeof(uintptr_t) == sizeof(void*));\n"
                 "namespace stub { inline constexpr std::int64_t kWarp = 32; }\n"},
    EmbeddedFile{"stub/hooks.h",
                 "#pragma once\n"
                 "#include \"stub/units.h\"\n"
                 "namespace stub {\n"
                 "struct Params { const float* __restrict__ bias; float scale; };\n"
                 "}\n"},
};

/// y[i] = scale * bias[i], and what a user's source adds.
inline KernelSource device_kernel(const std::string& user_source = "") {
  KernelSource source;
  source.name = "scale";
  source.language = Language::cuda_cpp;
  source.text =
      "#include \"stub/hooks.h\"\n"
      "#line 1 \"variant\"\n" +
      user_source +
      "\n#line 5 \"generated\"\n"
      "extern \"C\" __global__ void __launch_bounds__(stub::kWarp)\n"
      "scale(const __grid_constant__ stub::Params p, float* y) {\n"
      "  y[threadIdx.x] = p.scale * p.bias[threadIdx.x];\n"
      "}\n";
  source.symbols = {"scale"};
  source.prebuild_command = "make scale";
  source.headers = kStubHeaders;
  return source;
}

}  // namespace trencadis::jit
