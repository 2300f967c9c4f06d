// The device headers are real headers for every compiler that sees them: nvcc, and NVRTC from their
// texts alone, without a file system or a standard library. The PTX room compiles to machine code
// for each architecture, so that the assembler has seen every instruction.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "jit/embedded.h"
#include "support/paths.h"

namespace trencadis {
namespace {

namespace fs = std::filesystem;

std::string source_path() {
  return testing::source_dir() + "/tests/codegen/device_variants.cu";
}

std::string ptx_source_path() {
  return testing::source_dir() + "/tests/codegen/device_ptx.cu";
}

/// What only sm_90a has.
std::string sm90_source_path() {
  return testing::source_dir() + "/tests/simt/device_sm90.cu";
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

/// The name that an #include gives, and the text.
using Headers = std::vector<std::pair<std::string, std::string>>;

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
  int (*cubin_size)(Program, std::size_t*);
  int (*cubin)(Program, char*);
  int (*destroy)(Program*);

  explicit Nvrtc(const char* path) : library(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (library == nullptr) return;
    bind(create, "nvrtcCreateProgram");
    bind(compile, "nvrtcCompileProgram");
    bind(log_size, "nvrtcGetProgramLogSize");
    bind(log, "nvrtcGetProgramLog");
    bind(ptx_size, "nvrtcGetPTXSize");
    bind(ptx, "nvrtcGetPTX");
    bind(cubin_size, "nvrtcGetCUBINSize");
    bind(cubin, "nvrtcGetCUBIN");
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

  Program create_program(const std::string& source_path, const Headers& headers) const {
    std::vector<const char*> texts;
    std::vector<const char*> names;
    for (const auto& [name, text] : headers) {
      names.push_back(name.c_str());
      texts.push_back(text.c_str());
    }
    Program program = nullptr;
    EXPECT_EQ(
        create(&program, read_file(source_path).c_str(), fs::path(source_path).filename().c_str(),
               static_cast<int>(names.size()), texts.data(), names.data()),
        0);
    return program;
  }
};

TEST(DeviceCompile, NvrtcTakesEveryStockFunctorFromTheEmbeddedHeaders) {
  const std::string path = (cuda_home() / "lib64" / "libnvrtc.so").string();
  const Nvrtc nvrtc(path.c_str());
  if (nvrtc.library == nullptr) GTEST_SKIP() << "there is no " << path;

  Headers headers;
  for (const jit::EmbeddedFile& file : jit::embedded_kernel_headers()) {
    if (!file.path.starts_with("cpu/")) headers.emplace_back(file.path, file.text);
  }
  Nvrtc::Program program = nvrtc.create_program(source_path(), headers);
  ASSERT_NE(program, nullptr);
  const char* options[] = {"--std=c++20", "--gpu-architecture=sm_90a"};
  const int status = nvrtc.compile(program, 2, options);
  EXPECT_EQ(status, 0) << Nvrtc::text(program, nvrtc.log_size, nvrtc.log);
  EXPECT_NE(Nvrtc::text(program, nvrtc.ptx_size, nvrtc.ptx).find("use_every_functor"),
            std::string::npos);
  nvrtc.destroy(&program);
}

class PtxRoom : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Architectures, PtxRoom,
                         ::testing::Values("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a",
                                           "sm_120a"),
                         [](const auto& given) { return std::string(given.param); });

/// Of nvcc on one source; the log is what it said.
struct Nvcc {
  int status;
  std::string command, log, output;

  explicit Nvcc(const std::string& options, const std::string& source = ptx_source_path()) {
    const std::string path = ::testing::TempDir() + "trencadis_ptx_" + std::to_string(getpid());
    command = (cuda_home() / "bin" / "nvcc").string() + " -std=c++20 " + options + " -I" +
              testing::source_dir() + "/kernels " + source + " -o " + path + ".cubin > " + path +
              " 2>&1";
    status = std::system(command.c_str());
    log = read_file(path);
    output = read_file(path + ".cubin");
    fs::remove(path);
    fs::remove(path + ".cubin");
  }

  static bool missing() { return !fs::exists(cuda_home() / "bin" / "nvcc"); }
};

TEST_P(PtxRoom, NvccTakesEveryInstruction) {
  if (Nvcc::missing()) GTEST_SKIP() << "there is no nvcc in " << cuda_home();
  const Nvcc nvcc(std::string("-cubin -Werror all-warnings -arch=") + GetParam());
  EXPECT_EQ(nvcc.status, 0) << nvcc.command << "\n" << nvcc.log;
  EXPECT_NE(nvcc.output.find("use_every_instruction"), std::string::npos);
}

TEST(PtxRoomOfSm90, NvccTakesEveryInstruction) {
  if (Nvcc::missing()) GTEST_SKIP() << "there is no nvcc in " << cuda_home();
  const Nvcc nvcc("-cubin -Werror all-warnings -arch=sm_90a", sm90_source_path());
  EXPECT_EQ(nvcc.status, 0) << nvcc.command << "\n" << nvcc.log;
  EXPECT_NE(nvcc.output.find("use_every_sm90_instruction"), std::string::npos);
}

TEST(PtxRoomBelowSm80, RefusesProductsOfBFloatInWords) {
  if (Nvcc::missing()) GTEST_SKIP() << "there is no nvcc in " << cuda_home();
  const Nvcc nvcc("-cubin -DBFLOAT_EVERYWHERE -arch=sm_75");
  EXPECT_NE(nvcc.status, 0);
  EXPECT_NE(nvcc.log.find("no bfloat16: it needs sm_80"), std::string::npos) << nvcc.log;
}

/// Compiles the source for the architecture by the texts of the room; the code names the kernel.
void expect_nvrtc_takes(const std::string& source, const std::string& arch,
                        const std::string& kernel) {
  const std::string path = (cuda_home() / "lib64" / "libnvrtc.so").string();
  const Nvrtc nvrtc(path.c_str());
  if (nvrtc.library == nullptr) GTEST_SKIP() << "there is no " << path;

  const fs::path kernels = fs::path(testing::source_dir()) / "kernels";
  Headers headers;
  for (const char* room : {"contract", "cuda/ptx"}) {
    for (const auto& entry : fs::directory_iterator(kernels / room)) {
      const std::string header = entry.path().string();
      headers.emplace_back(fs::relative(header, kernels).string(), read_file(header));
    }
  }
  Nvrtc::Program program = nvrtc.create_program(source, headers);
  ASSERT_NE(program, nullptr);
  const std::string architecture = "--gpu-architecture=" + arch;
  const char* options[] = {"--std=c++20", architecture.c_str()};
  const int status = nvrtc.compile(program, 2, options);
  EXPECT_EQ(status, 0) << Nvrtc::text(program, nvrtc.log_size, nvrtc.log);
  EXPECT_NE(Nvrtc::text(program, nvrtc.cubin_size, nvrtc.cubin).find(kernel), std::string::npos);
  nvrtc.destroy(&program);
}

TEST_P(PtxRoom, NvrtcTakesEveryInstructionFromTheTextsAlone) {
  expect_nvrtc_takes(ptx_source_path(), GetParam(), "use_every_instruction");
}

TEST(PtxRoomOfSm90, NvrtcTakesEveryInstructionFromTheTextsAlone) {
  expect_nvrtc_takes(sm90_source_path(), "sm_90a", "use_every_sm90_instruction");
}

TEST_P(PtxRoom, NvccTakesTheKernelsOfPagesAndMerges) {
  if (Nvcc::missing()) GTEST_SKIP() << "there is no nvcc in " << cuda_home();
  const Nvcc nvcc(std::string("-cubin -Werror all-warnings -Xptxas -v -arch=") + GetParam(),
                  testing::source_dir() + "/tests/codegen/device_pages.cu");
  EXPECT_EQ(nvcc.status, 0) << nvcc.command << "\n" << nvcc.log;
  EXPECT_NE(nvcc.output.find("append_bf16"), std::string::npos);
  for (std::size_t at = 0; (at = nvcc.log.find("bytes spill stores", at)) != std::string::npos;
       ++at)
    EXPECT_EQ(nvcc.log.substr(at - 3, 3), " 0 ") << nvcc.log;
}

}  // namespace
}  // namespace trencadis
