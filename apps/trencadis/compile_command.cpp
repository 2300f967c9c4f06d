#include "compile_command.h"

#include <fmt/format.h>
#include <trencadis/runtime.h>
#include <trencadis/spec_text.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "output/failure.h"

namespace trencadis::app {
namespace {

struct Options {
  std::string spec;
  std::string source;
  std::vector<std::string> archs{"host"};
  bool stock = false;
  std::vector<std::string> head_dims{"128"};  // of --stock, as are dtypes
  std::vector<std::string> dtypes{"bf16"};
  std::string output;
  bool print_source = false;
  bool json = false;
};

/// A kernel, and what it was compiled for.
struct Compiled {
  CompiledKernel kernel;
  std::string arch;
};

// What models commonly ask for. Windows and sinks are arguments of these kernels, not others.
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

void print(const Compiled& compiled) {
  const CompiledKernel& kernel = compiled.kernel;
  fmt::print(
      "name     {}\narch     {}\nkey      {}\npath     {}\nseconds  {}\n", kernel.name,
      compiled.arch, kernel.key, kernel.path,
      kernel.from_cache ? "0, nothing had to be compiled" : fmt::format("{:.2f}", kernel.seconds));
  for (const KernelResources& takes : kernel.resources)
    fmt::print("{:20} {:3} registers {:>7} bytes of stack {:>9} bytes of shared memory\n",
               takes.name, takes.registers, grouped(takes.stack_bytes),
               grouped(takes.shared_bytes));
  fmt::print("\n");
}

void print_json(const std::vector<Compiled>& compiled) {
  using nlohmann::ordered_json;
  ordered_json list = ordered_json::array();
  for (const auto& [kernel, arch] : compiled) {
    ordered_json resources = ordered_json::array();
    for (const KernelResources& takes : kernel.resources)
      resources.push_back({{"name", takes.name},
                           {"registers", takes.registers},
                           {"stack_bytes", takes.stack_bytes},
                           {"shared_bytes", takes.shared_bytes}});
    list.push_back({{"name", kernel.name},
                    {"arch", arch},
                    {"key", kernel.key},
                    {"path", kernel.path},
                    {"from_cache", kernel.from_cache},
                    {"seconds", kernel.seconds},
                    {"resources", resources}});
  }
  fmt::print("{}\n", list.dump(1));
}

std::vector<AttentionSpec> read_specs(const Options& o) {
  if (!o.stock) return {read_spec(o)};
  std::vector<AttentionSpec> specs;
  for (const std::string& dims : o.head_dims) {
    const std::size_t slash = std::min(dims.find('/'), dims.size());
    const std::string vo =
        slash < dims.size() ? ",head_dim_vo=" + dims.substr(slash + 1) : std::string();
    for (const std::string& dtype : o.dtypes)
      for (const char* spec : kStockSpecs)
        specs.push_back(parse_spec(
            fmt::format("head_dim={}{},dtype={},{}", dims.substr(0, slash), vo, dtype, spec)));
  }
  return specs;
}

/// The specs that the architecture has kernels for. Of the stock variants the others are told of
/// and left out, as long as one is left.
std::vector<AttentionSpec> supported(const Options& o, std::vector<AttentionSpec> specs,
                                     const std::string& arch) {
  if (!o.stock) return specs;
  std::vector<std::string> reasons;
  std::erase_if(specs, [&](const AttentionSpec& spec) {
    try {
      kernel_source(spec, arch);
      return false;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::not_supported) throw;
      reasons.emplace_back(error.what());
      return true;
    }
  });
  if (specs.empty()) fail(ErrorKind::not_supported, "--arch {}: {}", arch, reasons.front());
  for (const std::string& reason : reasons)
    fmt::print(stderr, "left out for {}: {}\n", arch, reason);
  return specs;
}

/// What is compiled from now on lies in `directory` alone.
void compile_into(const std::string& directory) {
  const std::string path = std::filesystem::absolute(directory).string();
  setenv("TRENCADIS_CACHE_DIR", path.c_str(), 1);
  unsetenv("TRENCADIS_BUNDLE");
}

void run(const Options& o) {
  if (o.spec.empty() && o.source.empty() && !o.stock)
    fail(ErrorKind::invalid_argument,
         "compile needs --spec, as in head_dim=128,causal,soft_cap=30, or --stock");
  const std::vector<AttentionSpec> specs = read_specs(o);
  std::vector<std::pair<std::string, std::vector<AttentionSpec>>> wanted;
  for (const std::string& arch : o.archs) wanted.emplace_back(arch, supported(o, specs, arch));

  if (o.print_source) {
    for (const auto& [arch, of_arch] : wanted)
      for (const AttentionSpec& spec : of_arch) fmt::print("{}", kernel_source(spec, arch));
    return;
  }
  if (!o.output.empty()) compile_into(o.output);
  std::vector<Compiled> compiled;
  for (const auto& [arch, of_arch] : wanted)
    for (const AttentionSpec& spec : of_arch) compiled.push_back({compile(spec, arch), arch});
  if (o.json) return print_json(compiled);
  for (const Compiled& kernel : compiled) print(kernel);
  if (!o.output.empty())
    fmt::print("A process with TRENCADIS_BUNDLE={} takes these from there.\n", cache_directory());
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
      "  trencadis compile --spec functor=MyBias,causal --source my_bias.h\n"
      "Kernels for machines without a compiler, made without a GPU, those that append, copy and\n"
      "merge among them:\n"
      "  trencadis compile --stock --arch sm_80,sm_90a --head-dim 64,128 --output kernels\n"
      "  TRENCADIS_BUNDLE=kernels my_server");
  const auto o = std::make_shared<Options>();
  auto* spec = command.add_option("--spec", o->spec, "what to compute: options, JSON or a file")
                   ->type_name("SPEC");
  auto* source =
      command.add_option("--source", o->source, "C++ file that defines the spec's functor")
          ->type_name("FILE");
  command.add_option("--arch", o->archs, "what to compile for: host, sm_80, sm_90a, ...")
      ->capture_default_str()
      ->delimiter(',')
      ->type_name("ARCH ...");
  auto* stock = command.add_flag("--stock", o->stock, "the stock variants, in place of --spec")
                    ->excludes(spec)
                    ->excludes(source);
  command.add_option("--head-dim", o->head_dims, "with --stock: D, or D_qk/D_vo")
      ->capture_default_str()
      ->delimiter(',')
      ->needs(stock)
      ->type_name("D ...");
  command.add_option("--dtype", o->dtypes, "with --stock: of q, k, v and o")
      ->capture_default_str()
      ->delimiter(',')
      ->needs(stock)
      ->type_name("DTYPE ...");
  auto* output = command
                     .add_option("--output", o->output,
                                 "put the kernels here, for machines that find them by "
                                 "TRENCADIS_BUNDLE, and not into the cache")
                     ->type_name("DIR");
  command.add_flag("--print-source", o->print_source, "print what would be compiled, and stop")
      ->excludes(output);
  command.add_flag("--json", o->json, "print JSON");
  command.callback([o] { run(*o); });
}

}  // namespace trencadis::app
