// What a cubin says of its kernels, held against what ptxas -v says of the same code; and damaged
// files, which must be refused in words or read to some answer, never past their end.
#include "jit/cubin.h"

#include <cstring>
#include <map>
#include <random>
#include <regex>

#include "fixture.h"
#include "jit/nvrtc.h"
#include "jit/nvrtc_compiler.h"
#include "support/expect_error.h"
#include "support/scale.h"

namespace trencadis::jit {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using trencadis::testing::expect_error;

constexpr const char* kArchitectures[] = {"sm_75",  "sm_80",   "sm_86",  "sm_89",
                                          "sm_90a", "sm_100a", "sm_120a"};

// A kernel for each thing that is counted: `plain` has none of them.
constexpr const char* kKernels = R"(
extern "C" __constant__ int answer = 86528;
extern "C" __device__ int negative = -7;
extern "C" __device__ int zero;
extern "C" __device__ double wide = 1;
extern "C" __global__ void plain(float* p) { p[threadIdx.x] *= 2; }
extern "C" __global__ void fixed_shared(float* p) {
  __shared__ float s[300];
  s[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  p[threadIdx.x] = s[299 - threadIdx.x] + answer + negative + zero + wide;
}
extern "C" __global__ void dynamic_shared(float* p) {
  extern __shared__ float d[];
  d[threadIdx.x] = p[threadIdx.x];
  __syncthreads();
  p[threadIdx.x] = d[31 - threadIdx.x];
}
extern "C" __global__ void local_array(float* p, int n) {
  float a[64];
  for (int i = 0; i < n; ++i) a[(i * 7) & 63] = p[i];
  for (int i = 0; i < n; ++i) p[i] = a[(i * 13) & 63];
}
__device__ __noinline__ float called(float* p, int n) {
  float a[32], sum = 0;
  for (int i = 0; i < n; ++i) a[(i * 7) & 31] = p[i];
  for (int i = 0; i < n; ++i) sum += a[(i * 13) & 31];
  return sum;
}
extern "C" __global__ void calls(float* p, int n) { p[0] = called(p, n); }
extern "C" __global__ void __launch_bounds__(1024, 1) spills(float* p) {
  float x[80];
  for (int i = 0; i < 80; ++i) x[i] = p[i * 1024 + threadIdx.x];
  __syncthreads();
  for (int j = 0; j < 8; ++j)
    for (int i = 0; i < 80; ++i) x[i] = x[i] * x[(i + 3 * j) % 80] + x[(i + 40) % 80];
  for (int i = 0; i < 80; ++i) p[i * 1024 + threadIdx.x] = x[i];
}
)";

/// The test program compiled by NVRTC, once an architecture.
const Artifact& cubin(const std::string& architecture) {
  static std::map<std::string, Artifact> cubins;
  Artifact& artifact = cubins[architecture];
  if (!artifact.empty()) return artifact;
  KernelSource source;
  source.language = Language::cuda_cpp;
  source.text = kKernels;
  source.headers = {};
  const TemporaryDirectory work;
  const auto result = NvrtcCompiler(architecture).compile(source, work.path());
  if (const auto* failure = std::get_if<CompileFailure>(&result))
    ADD_FAILURE() << failure->first_error << "\n" << failure->log;
  else
    artifact = std::get<Artifact>(result);
  return artifact;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

/// What ptxas -v says, by kernel. Kernels are in its order, which is not that of the names.
std::map<std::string, CubinKernel> parse_ptxas(const std::string& log) {
  std::map<std::string, CubinKernel> kernels;
  CubinKernel* kernel = nullptr;
  std::istringstream lines(log);
  std::smatch found;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_search(line, found, std::regex("entry function '(.*)' for"))) {
      kernel = &kernels[found[1]];
      kernel->name = found[1];
    }
    if (!std::regex_search(line, found, std::regex("Used (\\d+) registers"))) continue;
    kernel->registers = std::stoi(found[1]);
    if (std::regex_search(line, found, std::regex("(\\d+) bytes cumulative stack size")))
      kernel->stack_bytes = std::stol(found[1]);
    if (std::regex_search(line, found, std::regex("(\\d+) bytes smem")))
      kernel->static_shared_bytes = std::stol(found[1]);
  }
  return kernels;
}

class CubinOf : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const CompilerDescription nvrtc = describe_nvrtc();
    if (!nvrtc.available) GTEST_SKIP() << nvrtc.reason;
  }
};

INSTANTIATE_TEST_SUITE_P(Architectures, CubinOf, ::testing::ValuesIn(kArchitectures),
                         [](const auto& given) { return std::string(given.param); });

TEST_P(CubinOf, SaysWhatPtxasSays) {
  const char* home = std::getenv("CUDA_HOME");
  const fs::path nvcc = fs::path(home != nullptr ? home : "/usr/local/cuda") / "bin" / "nvcc";
  if (!fs::exists(nvcc)) GTEST_SKIP() << "there is no " << nvcc;
  const TemporaryDirectory work;
  std::ofstream(work / "kernels.cu") << kKernels;
  const std::string command = nvcc.string() + " -std=c++20 -cubin -Xptxas -v -arch=" + GetParam() +
                              " -o " + (work / "kernels.cubin").string() + " " +
                              (work / "kernels.cu").string() + " > " + (work / "log").string() +
                              " 2>&1";
  ASSERT_EQ(std::system(command.c_str()), 0) << read_text(work / "log");

  const std::string file = read_text(work / "kernels.cubin");
  const std::map<std::string, CubinKernel> expected = parse_ptxas(read_text(work / "log"));
  const std::vector<CubinKernel> kernels = Cubin(bytes_of(file)).kernels();
  EXPECT_EQ(kernels.size(), 6u);
  ASSERT_EQ(kernels.size(), expected.size());
  for (const CubinKernel& kernel : kernels) {
    ASSERT_TRUE(expected.count(kernel.name)) << kernel.name;
    const CubinKernel& ptxas = expected.at(kernel.name);
    EXPECT_EQ(kernel.registers, ptxas.registers) << kernel.name;
    EXPECT_EQ(kernel.stack_bytes, ptxas.stack_bytes) << kernel.name;
    EXPECT_EQ(kernel.static_shared_bytes, ptxas.static_shared_bytes) << kernel.name;
  }
}

TEST_P(CubinOf, OfNvrtcHasEachThingThatIsCounted) {
  std::map<std::string, CubinKernel> kernels;
  for (const CubinKernel& kernel : Cubin(cubin(GetParam())).kernels()) {
    kernels[kernel.name] = kernel;
    EXPECT_GT(kernel.registers, 0) << kernel.name;
  }
  EXPECT_EQ(kernels.size(), 6u) << "functions that are called are no kernels";
  EXPECT_EQ(kernels["plain"].stack_bytes, 0);
  EXPECT_EQ(kernels["plain"].static_shared_bytes, 0);
  EXPECT_EQ(kernels["dynamic_shared"].static_shared_bytes, 0);
  EXPECT_EQ(kernels["fixed_shared"].static_shared_bytes, 1200);
  EXPECT_GE(kernels["local_array"].stack_bytes, 256);
  EXPECT_GE(kernels["calls"].stack_bytes, 128);
  EXPECT_GT(kernels["spills"].stack_bytes, 0);
  EXPECT_EQ(kernels["spills"].registers, 64);
}

TEST_P(CubinOf, KnowsTheValuesOfVariables) {
  const Cubin code(cubin(GetParam()));
  EXPECT_EQ(code.int_value("answer"), 86528);
  EXPECT_EQ(code.int_value("negative"), -7);
  EXPECT_EQ(code.int_value("zero"), 0);
  expect_error(ErrorKind::invalid_argument, {"no variable 'nothing'"},
               [&] { code.int_value("nothing"); });
  expect_error(ErrorKind::invalid_argument, {"no variable 'plain'"},
               [&] { code.int_value("plain"); });
  expect_error(ErrorKind::invalid_argument, {"'wide' has 8 bytes"},
               [&] { code.int_value("wide"); });
}

/// Asks for everything. The bytes are an allocation of their own, so that a sanitizer sees a read
/// past their end. "" or what the error says.
std::string read_everything(const Artifact& bytes) {
  const std::vector<std::byte> copy(bytes);
  try {
    const Cubin code(copy);
    code.kernels();
    code.int_value("answer");
    return "";
  } catch (const Error& error) {
    EXPECT_TRUE(error.kind() == ErrorKind::io || error.kind() == ErrorKind::invalid_argument)
        << error.what();
    return error.what();
  }
}

TEST_P(CubinOf, RefusesEveryTruncation) {
  const Artifact& whole = cubin(GetParam());
  // Section headers lie at the end, so that any cut takes one.
  for (std::size_t size = 0; size + 512 < whole.size(); size += 1 + size / 64) {
    EXPECT_THAT(read_everything(Artifact(whole.begin(), whole.begin() + std::ptrdiff_t(size))),
                HasSubstr("cannot be read"))
        << size << " bytes";
  }
}

TEST_P(CubinOf, ReadsNoDamagePastTheEnd) {
  const Artifact& whole = cubin(GetParam());
  ASSERT_THAT(read_everything(whole), IsEmpty());
  std::mt19937 random(1);
  // In the header and in what describes the code: most bytes are the code itself.
  std::uint64_t section_headers = 0;
  std::memcpy(&section_headers, whole.data() + 40, sizeof section_headers);
  const auto somewhere = [&]() -> std::size_t {
    switch (random() % 4) {
      case 0:
        return random() % 64;
      case 1:
        return section_headers + random() % (whole.size() - section_headers);
      case 2:
        return random() % std::min<std::size_t>(whole.size(), 8192);
      default:
        return random() % whole.size();
    }
  };
  int refused = 0;
  for (int round = 0; round < testing::scaled(2000); ++round) {
    Artifact damaged = whole;
    for (int flips = 1 + int(random() % 4); flips > 0; --flips) {
      // All bits of a byte as well as one: sizes near 2^64 overflow sums.
      damaged[somewhere()] ^= random() % 2 == 0 ? std::byte{0xff} : std::byte(1u << random() % 8);
    }
    refused += read_everything(damaged).empty() ? 0 : 1;
  }
  EXPECT_GT(refused, 0);
}

TEST(Cubin, RefusesOtherFilesInWords) {
  expect_error(ErrorKind::io, {"its header lies at byte 0, it has 0 bytes"}, [&] { Cubin({}); });
  expect_error(ErrorKind::io, {"no ELF file"}, [&] { Cubin(bytes_of(std::string(200, 'x'))); });
  const std::string program = read_text("/proc/self/exe");
  expect_error(ErrorKind::io, {"expected 2, 1 and 190"}, [&] { Cubin(bytes_of(program)); });
}

}  // namespace
}  // namespace trencadis::jit
