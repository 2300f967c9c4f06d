#include "compile_command.h"

#include <fmt/format.h>
#include <trencadis/runtime.h>
#include <trencadis/spec_text.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "output/failure.h"

namespace trencadis::app {
namespace {

struct Options {
  std::string spec;
  std::string source;
  std::string arch = "host";
  bool stock = false;
  bool print_source = false;
  bool json = false;
};

// What models commonly ask for.
constexpr std::array kStockSpecs = {
    "causal",
    "causal,soft_cap=50",
    "causal,alibi",
    "causal,rope",
    "causal,rope,soft_cap=50",
    "custom_mask",
    "custom_mask,soft_cap=50",
    "prefix_lm",
    "document_mask,causal",
    "sigmoid,causal",
};

std::string read_text(const std::string& path, const char* option) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || std::filesystem::is_directory(path) || !(text << file.rdbuf()))
    fail(ErrorKind::io, "{}: cannot read {}: {}", option, path,
         std::filesystem::is_directory(path) ? "it is a directory" : std::strerror(errno));
  return std::move(text).str();
}

AttentionSpec read_spec(const Options& o) {
  const bool is_file = o.spec.ends_with(".json") || std::filesystem::is_regular_file(o.spec);
  AttentionSpec spec = parse_spec(is_file ? read_text(o.spec, "--spec") : o.spec);
  if (!o.source.empty()) spec.variant.source = read_text(o.source, "--source");
  return spec;
}

/// "86,528"
std::string grouped(std::int64_t value) {
  std::string digits = std::to_string(value);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), ",");
  return digits;
}

void print(const CompiledKernel& kernel) {
  fmt::print(
      "name     {}\nkey      {}\npath     {}\nseconds  {}\n", kernel.name, kernel.key, kernel.path,
      kernel.from_cache ? "0, nothing had to be compiled" : fmt::format("{:.2f}", kernel.seconds));
  for (const KernelResources& takes : kernel.resources)
    fmt::print("{:20} {:3} registers {:>7} bytes of stack {:>9} bytes of shared memory\n",
               takes.name, takes.registers, grouped(takes.stack_bytes),
               grouped(takes.shared_bytes));
  fmt::print("\n");
}

void print_json(const std::vector<CompiledKernel>& kernels) {
  using nlohmann::ordered_json;
  ordered_json list = ordered_json::array();
  for (const CompiledKernel& kernel : kernels) {
    ordered_json resources = ordered_json::array();
    for (const KernelResources& takes : kernel.resources)
      resources.push_back({{"name", takes.name},
                           {"registers", takes.registers},
                           {"stack_bytes", takes.stack_bytes},
                           {"shared_bytes", takes.shared_bytes}});
    list.push_back({{"name", kernel.name},
                    {"key", kernel.key},
                    {"path", kernel.path},
                    {"from_cache", kernel.from_cache},
                    {"seconds", kernel.seconds},
                    {"resources", resources}});
  }
  fmt::print("{}\n", list.dump(1));
}

void run(const Options& o) {
  if (o.spec.empty() && o.source.empty() && !o.stock)
    fail(ErrorKind::invalid_argument,
         "compile needs --spec, as in head_dim=128,causal,soft_cap=30, or --stock");
  std::vector<AttentionSpec> specs;
  if (o.stock)
    for (const char* spec : kStockSpecs) specs.push_back(parse_spec(spec));
  else
    specs.push_back(read_spec(o));

  if (o.print_source) {
    for (const AttentionSpec& spec : specs) fmt::print("{}", kernel_source(spec, o.arch));
    return;
  }
  std::vector<CompiledKernel> kernels;
  for (const AttentionSpec& spec : specs) kernels.push_back(compile(spec, o.arch));
  if (o.json)
    print_json(kernels);
  else
    for (const CompiledKernel& kernel : kernels) print(kernel);
}

}  // namespace

void add_compile_command(CLI::App& app) {
  CLI::App& command =
      *app.add_subcommand("compile", "Compile the kernels of a spec into the cache, ahead of use");
  command.footer(
      "A spec is a list of options, a JSON object, or a file that holds either:\n"
      "  head_dim=128,dtype=bf16,causal,window_left=1023,soft_cap=30,sinks\n"
      "  alibi  custom_mask  prefix_lm  document_mask  rope,rope_interleaved  sigmoid\n"
      "A variant of your own is a functor and its source:\n"
      "  trencadis compile --spec functor=MyBias,causal --source my_bias.h");
  const auto o = std::make_shared<Options>();
  auto* spec = command.add_option("--spec", o->spec, "what to compute: options, JSON or a file")
                   ->type_name("SPEC");
  auto* source =
      command.add_option("--source", o->source, "C++ file that defines the spec's functor")
          ->type_name("FILE");
  command.add_option("--arch", o->arch, "what to compile for: host, sm_80, sm_90a, ...")
      ->capture_default_str()
      ->type_name("ARCH");
  command.add_flag("--stock", o->stock, "the stock variants, in place of --spec")
      ->excludes(spec)
      ->excludes(source);
  command.add_flag("--print-source", o->print_source, "print what would be compiled, and stop");
  command.add_flag("--json", o->json, "print JSON");
  command.callback([o] { run(*o); });
}

}  // namespace trencadis::app
