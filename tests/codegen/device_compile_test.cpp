// The variant headers are real headers for every compiler that sees them: nvcc, and NVRTC from the
// embedded texts alone, without a file system or a standard library.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "jit/embedded.h"
#include "support/paths.h"

namespace trencadis {
namespace {

namespace fs = std::filesystem;

std::string source_path() {
  return testing::source_dir() + "/tests/codegen/device_variants.cu";
}

fs::path cuda_home() {
  const char* home = std::getenv("CUDA_HOME");
  return home != nullptr ? home : "/usr/local/cuda";
}

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(DeviceCompile, NvccTakesEveryStockFunctor) {
  const fs::path nvcc = cuda_home() / "bin" / "nvcc";
  if (!fs::exists(nvcc)) GTEST_SKIP() << "there is no " << nvcc;
  const std::string log = ::testing::TempDir() + "trencadis_nvcc_" + std::to_string(getpid());
  const std::string command = nvcc.string() +
                              " -std=c++20 -arch=sm_90a -ptx -Werror all-warnings -I" +
                              testing::source_dir() + "/kernels " + source_path() + " -o " + log +
                              ".ptx > " + log + " 2>&1";
  const int status = std::system(command.c_str());
  EXPECT_EQ(status, 0) << command << "\n" << read_file(log);
  EXPECT_NE(read_file(log + ".ptx").find("use_every_functor"), std::string::npos);
  fs::remove(log);
  fs::remove(log + ".ptx");
}

/// The few functions of libnvrtc that a compilation needs, from a library that is opened here.
struct Nvrtc {
  using Program = void*;
  void* library;
  int (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*);
  int (*compile)(Program, int, const char* const*);
  int (*log_size)(Program, std::size_t*);
  int (*log)(Program, char*);
  int (*ptx_size)(Program, std::size_t*);
  int (*ptx)(Program, char*);
  int (*destroy)(Program*);

  explicit Nvrtc(const char* path) : library(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (library == nullptr) return;
    bind(create, "nvrtcCreateProgram");
    bind(compile, "nvrtcCompileProgram");
    bind(log_size, "nvrtcGetProgramLogSize");
    bind(log, "nvrtcGetProgramLog");
    bind(ptx_size, "nvrtcGetPTXSize");
    bind(ptx, "nvrtcGetPTX");
    bind(destroy, "nvrtcDestroyProgram");
  }

  template <class Function>
  void bind(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library, name));
  }

  template <class Size, class Get>
  static std::string text(Program program, Size size, Get get) {
    std::size_t bytes = 0;
    size(program, &bytes);
    std::string result(bytes, '\0');
    get(program, result.data());
    return result;
  }
};

TEST(DeviceCompile, NvrtcTakesEveryStockFunctorFromTheEmbeddedHeaders) {
  const std::string path = (cuda_home() / "lib64" / "libnvrtc.so").string();
  const Nvrtc nvrtc(path.c_str());
  if (nvrtc.library == nullptr) GTEST_SKIP() << "there is no " << path;

  std::vector<std::string> texts;
  std::vector<std::string> names;
  for (const jit::EmbeddedFile& file : jit::embedded_kernel_headers()) {
    if (file.path.starts_with("cpu/")) continue;
    texts.emplace_back(file.text);
    names.emplace_back(file.path);
  }
  std::vector<const char*> text_pointers;
  std::vector<const char*> name_pointers;
  for (const std::string& text : texts) text_pointers.push_back(text.c_str());
  for (const std::string& name : names) name_pointers.push_back(name.c_str());

  Nvrtc::Program program = nullptr;
  ASSERT_EQ(
      nvrtc.create(&program, read_file(source_path()).c_str(), "device_variants.cu",
                   static_cast<int>(names.size()), text_pointers.data(), name_pointers.data()),
      0);
  const char* options[] = {"--std=c++20", "--gpu-architecture=sm_90a"};
  const int status = nvrtc.compile(program, 2, options);
  EXPECT_EQ(status, 0) << Nvrtc::text(program, nvrtc.log_size, nvrtc.log);
  EXPECT_NE(Nvrtc::text(program, nvrtc.ptx_size, nvrtc.ptx).find("use_every_functor"),
            std::string::npos);
  nvrtc.destroy(&program);
}

}  // namespace
}  // namespace trencadis
