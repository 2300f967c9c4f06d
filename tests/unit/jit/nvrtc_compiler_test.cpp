#include "jit/nvrtc_compiler.h"

#include "device_kernel.h"
#include "fixture.h"

namespace trencadis::jit {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class NvrtcCompilerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const CompilerDescription nvrtc = describe_nvrtc();
    if (!nvrtc.available) GTEST_SKIP() << nvrtc.reason;
    fs::create_directory(work_);
  }

  Artifact compile(const KernelSource& source, const std::string& architecture = "sm_90a") {
    const auto result = NvrtcCompiler(architecture).compile(source, work_);
    if (const auto* failure = std::get_if<CompileFailure>(&result)) {
      ADD_FAILURE() << failure->first_error << "\n" << failure->log;
      return {};
    }
    return std::get<Artifact>(result);
  }

  CompileFailure fail_with(const KernelSource& source, const std::string& architecture = "sm_90a") {
    const auto result = NvrtcCompiler(architecture).compile(source, work_);
    EXPECT_TRUE(std::holds_alternative<CompileFailure>(result));
    return std::get<CompileFailure>(result);
  }

  TemporaryDirectory directory_;
  fs::path work_ = directory_ / "work";
};

std::string as_text(const Artifact& artifact) {
  return std::string(reinterpret_cast<const char*>(artifact.data()), artifact.size());
}

TEST_F(NvrtcCompilerTest, CompilesACubinFromHeadersInMemory) {
  const std::string cubin = as_text(compile(device_kernel()));
  EXPECT_THAT(cubin, StartsWith("\x7f"
                                "ELF"));
  EXPECT_THAT(cubin, HasSubstr("scale")) << "the C name is exported";
}

TEST_F(NvrtcCompilerTest, CompilesPtxThatEndsInAZero) {
  const std::string ptx = as_text(compile(device_kernel(), "compute_80"));
  EXPECT_THAT(ptx, AllOf(StartsWith("//"), HasSubstr(".target sm_80"), HasSubstr(".entry scale")));
  EXPECT_EQ(ptx.find('\0'), ptx.size() - 1);
}

TEST_F(NvrtcCompilerTest, LeavesSourceAndHeaders) {
  compile(device_kernel());
  EXPECT_EQ(read_text(work_ / "kernel.cu"), device_kernel().text);
  EXPECT_EQ(read_text(work_ / "kernels/stub/hooks.h"), kStubHeaders[1].text);
}

TEST_F(NvrtcCompilerTest, TheArtifactDependsOnTheArchitectureAndNotOnTheDirectory) {
  const Artifact first = compile(device_kernel());
  work_ = directory_ / "elsewhere";
  fs::create_directory(work_);
  EXPECT_EQ(compile(device_kernel()), first);
  EXPECT_NE(compile(device_kernel(), "sm_80"), first);
}

TEST_F(NvrtcCompilerTest, KnowsEveryArchitectureThatKernelsAreGeneratedFor) {
  for (const char* name : {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"}) {
    EXPECT_FALSE(compile(device_kernel(), name).empty()) << name;
  }
}

TEST_F(NvrtcCompilerTest, J2_TheIdentityIsVersionAndFlags) {
  EXPECT_THAT(NvrtcCompiler("sm_90a").identity(),
              AllOf(HasSubstr("NVRTC " + describe_nvrtc().version), HasSubstr("--std=c++20")));
  EXPECT_EQ(NvrtcCompiler("sm_90a").identity(), NvrtcCompiler("sm_80").identity())
      << "the architecture is a field of the key by itself";
  EXPECT_EQ(NvrtcCompiler("sm_90a").architecture(), "sm_90a");
}

TEST_F(NvrtcCompilerTest, J2_AFileThatIsNotInTheKeyIsRefused) {
  write_text(directory_ / "mine.h", "#define ONE 1\n");
  const std::string mine = (directory_ / "mine.h").string();
  EXPECT_EQ(fail_with(device_kernel("#include \"" + mine + "\"")).first_error,
            "the source includes " + mine);
  EXPECT_THAT(fail_with(device_kernel("#define H \"" + mine + "\"\n # include H")).advice,
              HasSubstr("known by its content"));
  // What another compiler would include does no harm here.
  compile(device_kernel("#ifndef __CUDACC__\n#include <cmath>\n#endif"));
}

TEST_F(NvrtcCompilerTest, J3_AMissingHeaderIsTheFirstLine) {
  const CompileFailure failure = fail_with(device_kernel("#include \"variant/missing.h\""));
  EXPECT_THAT(failure.first_error, AllOf(StartsWith("variant(1)"), HasSubstr("variant/missing.h")));
}

TEST_F(NvrtcCompilerTest, J3_ASyntaxErrorPointsIntoTheUsersText) {
  // A warning comes first.
  const CompileFailure failure = fail_with(device_kernel(
      "__device__ void error() { int unused; }\n\n__device__ int f() { return 1 +; }"));
  EXPECT_THAT(failure.first_error, ContainsRegex("^variant\\(3\\): error: "));
  EXPECT_THAT(failure.log, HasSubstr("unused"));
  EXPECT_THAT(failure.advice, HasSubstr("mend the source"));
}

TEST_F(NvrtcCompilerTest, J3_AFunctionForTheHostIsToldWhatItLacks) {
  EXPECT_THAT(fail_with(device_kernel("int f() { return 1; }")).advice, HasSubstr("TRENCADIS_FN"));
}

TEST_F(NvrtcCompilerTest, J3_TheAssemblersErrorsAreErrorsToo) {
  EXPECT_THAT(fail_with(device_kernel("extern \"C\" __global__ void k() { asm(\"wrong.op;\"); }"))
                  .first_error,
              AllOf(StartsWith("ptxas"), HasSubstr("error")));
  EXPECT_THAT(fail_with(device_kernel("__device__ int g();\n"
                                      "extern \"C\" __global__ void k(int* p) { *p = g(); }"))
                  .first_error,
              HasSubstr("Unresolved extern function"));
}

TEST_F(NvrtcCompilerTest, J3_AnUnknownArchitectureNamesItAndTheVersion) {
  const CompileFailure failure = fail_with(device_kernel(), "sm_31");
  EXPECT_THAT(failure.first_error, HasSubstr("--gpu-architecture"));
  EXPECT_THAT(failure.advice, AllOf(HasSubstr("does not know sm_31"),
                                    HasSubstr(describe_nvrtc().version), HasSubstr("newer")));
}

TEST_F(NvrtcCompilerTest, J3_TheCommandRepeatsTheFailure) {
  const CompileFailure failure = fail_with(device_kernel("__device__ int f() { return oops; }"));
  EXPECT_THAT(failure.command, StartsWith("nvcc -cubin --std=c++20 -arch=sm_90a"));
  if (!fs::exists("/usr/local/cuda/bin/nvcc")) return;
  ProcessOptions here;
  here.directory = work_;
  here.environment = {"PATH=/usr/local/cuda/bin:" + std::string(std::getenv("PATH"))};
  EXPECT_THAT(run_process({"/bin/sh", "-c", failure.command}, here).output,
              HasSubstr("variant(1): error"));
}

TEST(NvrtcCompiler, J3_WithoutNvrtcItSaysWhatWasSearched) {
  const ScopedVariable chosen("TRENCADIS_LIBNVRTC", "/nonexistent/libnvrtc.so");
  NvrtcCompiler compiler("sm_90a");
  EXPECT_FALSE(compiler.describe().available);
  EXPECT_THAT(compiler.describe().reason, HasSubstr("/nonexistent/libnvrtc.so"));
}

}  // namespace
}  // namespace trencadis::jit
