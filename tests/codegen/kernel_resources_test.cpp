// Registers, stack and shared memory of a representative set of kernels against a recorded table,
// resources/kernels.json. No GPU is needed, only NVRTC. After a change that is meant, write the
// table anew and read the difference:
//
//   TRENCADIS_UPDATE_RESOURCES=1 build/bin/tests/kernel_resources_test
//
// A compiler of another version allocates otherwise: with it the kernels are held against the
// limits of the architecture alone. tools/compile_all_kernels.py does every configuration.
#include "backends/cuda/kernel_resources.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <trencadis/spec_text.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/kernel_policy.h"
#include "base/files.h"
#include "codegen/cuda_architecture.h"
#include "jit/jit.h"
#include "jit/nvrtc.h"
#include "support/paths.h"

namespace trencadis::cuda {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kRecord =
    "TRENCADIS_UPDATE_RESOURCES=1 build/bin/tests/kernel_resources_test";

// One of each kind that asks for registers or shared memory in a way of its own.
constexpr const char* kSpecs[] = {
    "head_dim=128,dtype=bf16,causal",
    "head_dim=64,dtype=bf16,causal",
    "head_dim=64,dtype=f16,causal,soft_cap=50,alibi",
    "head_dim=128,dtype=bf16,custom_mask",
    "head_dim=256,dtype=bf16,causal",
    "head_dim=128,dtype=f32,causal",
    "head_dim=192,head_dim_vo=128,dtype=bf16,causal",
    "head_dim=128,dtype=bf16,causal,sigmoid",
    "head_dim=128,dtype=bf16,causal,rope",
    "head_dim=96,head_dim_vo=128,dtype=f16,dtype_o=f32,causal",
};

std::string table_path() {
  return testing::source_dir() + "/tests/codegen/resources/kernels.json";
}

/// "13.0" of "13.0", and of "13.0.88".
std::string major_minor(const std::string& version) {
  return version.substr(0, version.find('.', version.find('.') + 1));
}

/// The recorded table: arch and spec name a line.
struct Table {
  using Key = std::pair<std::string, std::string>;
  using Kernels = std::map<std::string, KernelResources>;

  std::string nvrtc;
  std::map<Key, Kernels> lines;

  static Table read() {
    Table table;
    const Json json = Json::parse(base::read_file(table_path()));
    table.nvrtc = json.at("nvrtc");
    for (const Json& line : json.at("configurations")) {
      Kernels& kernels = table.lines[{line.at("arch"), line.at("spec")}];
      for (const auto& [name, numbers] : line.at("kernels").items())
        kernels[name] = {.name = name,
                         .registers = numbers.at("registers"),
                         .stack_bytes = numbers.at("stack_bytes"),
                         .shared_bytes = numbers.at("shared_bytes")};
    }
    return table;
  }

  /// One line a configuration, sorted.
  void write() const {
    std::string text =
        fmt::format("{{\n \"nvrtc\": {},\n \"configurations\": [", Json(nvrtc).dump());
    const char* separator = "\n";
    for (const auto& [key, kernels] : lines) {
      Json line = {{"arch", key.first}, {"spec", key.second}, {"spills", false}};
      for (const auto& [name, takes] : kernels) {
        line["kernels"][name] = {{"registers", takes.registers},
                                 {"stack_bytes", takes.stack_bytes},
                                 {"shared_bytes", takes.shared_bytes}};
        if (takes.stack_bytes > 0) line["spills"] = true;
      }
      text += separator + ("  " + line.dump());
      separator = ",\n";
    }
    base::write_file_atomic(table_path(), text + "\n ]\n}\n");
  }
};

std::string describe(const KernelResources& takes) {
  return fmt::format("{} registers, {} bytes of stack, {} bytes of shared memory", takes.registers,
                     takes.stack_bytes, takes.shared_bytes);
}

struct Kernel {
  std::string arch;
  std::string spec;
  KernelPolicy policy;
  std::vector<KernelResources> resources;
};

/// As the library compiles it, or finds it in the cache.
Kernel compile_kernel(const codegen::CudaArchitecture& architecture, const std::string& text) {
  const AttentionSpec spec = parse_spec(text);
  const std::string arch(architecture.name);
  const jit::LoadedArtifact code = jit::load_device_kernel(kernel_source(spec, architecture), arch);
  return {.arch = arch,
          .spec = text,
          .policy = kernel_policy(spec, architecture),
          .resources = kernel_resources(*code.artifact)};
}

/// What holds for every compiler. What a kernel says of its registers is what each thread has at
/// launch. In the Hopper template the roles of a CTA then exchange them (collective/ring_layout.h,
/// tests/simt/shared_memory_test.cpp): no more are ever there, and with fewer they would wait for
/// ever.
void expect_fits(const Kernel& kernel, const codegen::CudaArchitecture& architecture) {
  constexpr int kRegisters = 65536;  // of a multiprocessor
  constexpr int kRegisterStep = 8;
  constexpr int kReservedShared = 1024;  // of a CTA, by the system
  const auto per_sm = architecture.max_cta_shared_memory + kReservedShared;
  for (const KernelResources& takes : kernel.resources) {
    const bool attention = takes.name == codegen::kAttentionSymbol;
    const int ctas = attention ? kernel.policy.config.ctas_per_sm : 1;
    const int threads = kernel.policy.config.threads() * ctas;
    const int most = kRegisters / threads / kRegisterStep * kRegisterStep;
    if (attention && kernel.policy.config.producer_warps > 0) {
      EXPECT_EQ(most, 168);
      EXPECT_EQ(takes.registers, most) << takes.name;
    } else {
      EXPECT_LE(takes.registers, most) << takes.name;
    }
    EXPECT_LE(takes.shared_bytes, architecture.max_cta_shared_memory) << takes.name;
    EXPECT_LE(ctas * (takes.shared_bytes + kReservedShared), per_sm) << takes.name;
  }
}

/// No more than the table has. Another compiler spills other amounts, but nothing where the
/// recorded one does not.
void expect_within(const Kernel& kernel, const Table::Kernels& recorded, bool same_compiler) {
  for (const KernelResources& takes : kernel.resources) {
    const auto line = recorded.find(takes.name);
    ASSERT_NE(line, recorded.end()) << takes.name << " is not in the table; record: " << kRecord;
    const KernelResources& most = line->second;
    const bool more_stack = same_compiler ? takes.stack_bytes > most.stack_bytes
                                          : takes.stack_bytes > 0 && most.stack_bytes == 0;
    const bool more = more_stack || (same_compiler && (takes.registers > most.registers ||
                                                       takes.shared_bytes > most.shared_bytes));
    EXPECT_FALSE(more) << takes.name << " takes     " << describe(takes) << "\n"
                       << "the table has " << describe(most) << "\n"
                       << "if that is meant: " << kRecord;
  }
}

class KernelsOf : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const jit::CompilerDescription nvrtc = jit::describe_nvrtc();
    if (!nvrtc.available) GTEST_SKIP() << nvrtc.reason;
    version_ = major_minor(nvrtc.version);
    for (const char* spec : kSpecs) kernels_.push_back(compile_kernel(architecture_, spec));
  }

  const codegen::CudaArchitecture& architecture_ = *codegen::find_cuda_architecture(GetParam());
  std::string version_;
  std::vector<Kernel> kernels_;
};

INSTANTIATE_TEST_SUITE_P(Architectures, KernelsOf, ::testing::Values("sm_80", "sm_90a", "sm_120a"),
                         [](const auto& given) { return std::string(given.param); });

TEST_P(KernelsOf, TakeNoMoreThanRecorded) {
  Table table;
  const bool record = std::getenv("TRENCADIS_UPDATE_RESOURCES") != nullptr;
  if (record) {
    if (std::filesystem::exists(table_path())) table = Table::read();
    // Of one compiler, and nothing that is no longer compiled.
    if (table.nvrtc != version_) table.lines.clear();
    table.nvrtc = version_;
    std::erase_if(table.lines, [&](const auto& line) { return line.first.first == GetParam(); });
    for (const Kernel& kernel : kernels_)
      for (const KernelResources& takes : kernel.resources)
        table.lines[{kernel.arch, kernel.spec}][takes.name] = takes;
    table.write();
  }
  table = Table::read();
  const bool same_compiler = table.nvrtc == version_;
  if (!same_compiler)
    std::printf("NVRTC is %s, the table is of %s: only limits and spills are checked\n",
                version_.c_str(), table.nvrtc.c_str());
  for (const Kernel& kernel : kernels_) {
    SCOPED_TRACE(kernel.arch + " " + kernel.spec);
    expect_fits(kernel, architecture_);
    const auto line = table.lines.find({kernel.arch, kernel.spec});
    if (line == table.lines.end())
      ADD_FAILURE() << "is not in the table; record: " << kRecord;
    else
      expect_within(kernel, line->second, same_compiler);
  }
}

}  // namespace
}  // namespace trencadis::cuda
