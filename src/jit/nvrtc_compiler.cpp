#include "jit/nvrtc_compiler.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "jit/work_files.h"

namespace trencadis::jit {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSourceFile = "kernel.cu";

// No fast math: kernels rest on IEEE infinities, NaN and subnormals. Fused multiply-add is NVRTC's
// default. No option for unannotated functions: hooks are marked TRENCADIS_FN, here as elsewhere.
constexpr const char* kStandard = "--std=c++20";

// Types as nvcc has them on Linux, from the host's headers.
constexpr std::array kStandardHeaders = {
    EmbeddedFile{"cstdint", R"(#pragma once
using int8_t = signed char;
using int16_t = short;
using int32_t = int;
using int64_t = long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long;
using intptr_t = long;
using uintptr_t = unsigned long;
namespace std {
using ::int8_t;
using ::int16_t;
using ::int32_t;
using ::int64_t;
using ::intptr_t;
using ::uint8_t;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;
using ::uintptr_t;
}  // namespace std
)"},
    EmbeddedFile{"cstddef", R"(#pragma once
namespace std {
using size_t = decltype(sizeof(0));
using ptrdiff_t = decltype(static_cast<char*>(nullptr) - static_cast<char*>(nullptr));
using nullptr_t = decltype(nullptr);
enum class byte : unsigned char {};
}  // namespace std
)"},
};

/// The headers as NVRTC takes them: zero-terminated copies, side by side.
class HeaderSet {
 public:
  explicit HeaderSet(std::span<const EmbeddedFile> headers) {
    add(headers);
    add(kStandardHeaders);
    for (const std::string& text : texts_) text_pointers_.push_back(text.c_str());
    for (const std::string& name : names_) name_pointers_.push_back(name.c_str());
  }

  int size() const { return static_cast<int>(names_.size()); }
  const char* const* texts() const { return text_pointers_.data(); }
  const char* const* names() const { return name_pointers_.data(); }
  bool contains(std::string_view name) const {
    return std::find(names_.begin(), names_.end(), name) != names_.end();
  }

 private:
  void add(std::span<const EmbeddedFile> headers) {
    for (const EmbeddedFile& header : headers) {
      if (contains(header.path)) continue;
      names_.emplace_back(header.path);
      texts_.emplace_back(header.text);
    }
  }

  std::vector<std::string> names_;
  std::vector<std::string> texts_;
  std::vector<const char*> text_pointers_;
  std::vector<const char*> name_pointers_;
};

/// One compilation. NVRTC keeps nothing of it after.
class Program {
 public:
  Program(const Nvrtc& nvrtc, const std::string& text, const HeaderSet& headers) : nvrtc_(nvrtc) {
    const int status = nvrtc_.create_program(&program_, text.c_str(), kSourceFile, headers.size(),
                                             headers.texts(), headers.names());
    if (status != Nvrtc::kSuccess) {
      base::fail(ErrorKind::io, "nvrtcCreateProgram failed: {}", nvrtc_.error_string(status));
    }
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() { nvrtc_.destroy_program(&program_); }

  int compile(const std::vector<std::string>& options) {
    std::vector<const char*> pointers;
    for (const std::string& option : options) pointers.push_back(option.c_str());
    return nvrtc_.compile_program(program_, static_cast<int>(pointers.size()), pointers.data());
  }

  std::string log() const {
    std::size_t bytes = 0;
    if (nvrtc_.log_size(program_, &bytes) != Nvrtc::kSuccess || bytes == 0) return "";
    std::string text(bytes, '\0');
    if (nvrtc_.log(program_, text.data()) != Nvrtc::kSuccess) return "";
    text.resize(bytes - 1);
    return text;
  }

  /// Empty where there is none.
  Artifact cubin() const { return result(nvrtc_.cubin_size, nvrtc_.cubin); }
  Artifact ptx() const { return result(nvrtc_.ptx_size, nvrtc_.ptx); }

 private:
  Artifact result(int (*size)(Nvrtc::Program, std::size_t*),
                  int (*get)(Nvrtc::Program, char*)) const {
    std::size_t bytes = 0;
    if (size(program_, &bytes) != Nvrtc::kSuccess) return {};
    Artifact artifact(bytes);
    auto* data = reinterpret_cast<char*>(artifact.data());
    if (bytes == 0 || get(program_, data) != Nvrtc::kSuccess) return {};
    return artifact;
  }

  const Nvrtc& nvrtc_;
  Nvrtc::Program program_ = nullptr;
};

/// True for a line that reports an error: the front end writes "variant(3): error: ...", ptxas
/// "ptxas error   : ..." and "ptxas fatal   : ...".
bool reports_error(std::string_view line) {
  for (const std::string_view word : {"error", "fatal"}) {
    const std::size_t at = line.find(word);
    if (at == std::string_view::npos) continue;
    const std::size_t next = line.find_first_not_of(' ', at + word.size());
    if (next != std::string_view::npos && (line[next] == ':' || line[next] == '#')) return true;
  }
  return false;
}

std::string first_error_line(const std::string& log) {
  std::istringstream lines(log);
  std::string first;
  for (std::string line; std::getline(lines, line);) {
    if (reports_error(line)) return line;
    if (first.empty()) first = line;
  }
  return first.empty() ? "the compiler says nothing" : first;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  return begin == std::string_view::npos ? "" : text.substr(begin);
}

/// The first file of this machine that the source includes, besides the headers that were handed
/// over; "" where there is none. NVRTC reads such files, and keeps no list of them.
std::string foreign_header(const std::string& text, const HeaderSet& headers) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::string_view rest = trimmed(line);
    if (!rest.starts_with('#')) continue;
    rest = trimmed(rest.substr(1));
    if (!rest.starts_with("include")) continue;
    rest = trimmed(rest.substr(std::string_view("include").size()));
    const bool quoted = rest.starts_with('"') || rest.starts_with('<');
    if (!quoted) return std::string(rest);  // a macro, which may name anything
    const std::string name(rest.substr(1, rest.find_first_of("\">", 1) - 1));
    std::error_code ignored;
    if (!headers.contains(name) && fs::is_regular_file(name, ignored)) return name;
  }
  return "";
}

std::string advice_for(int status, const std::string& first_error, const std::string& version,
                       const std::string& architecture) {
  if (status == Nvrtc::kOutOfMemory) {
    return "the compiler ran out of memory: give it about 1 GB more, or compile on a larger "
           "machine and copy the cache directory";
  }
  if (status == Nvrtc::kInvalidOption) {
    return fmt::format("NVRTC {} does not know {}: set TRENCADIS_LIBNVRTC to a newer libnvrtc",
                       version, architecture);
  }
  if (status != Nvrtc::kCompilationFailed) {
    return "the compiler itself failed; set TRENCADIS_LIBNVRTC to another libnvrtc";
  }
  if (first_error.find("execution space annotations") != std::string::npos) {
    return "write TRENCADIS_FN before the function that the line names";
  }
  return "mend the source that the line names";
}

}  // namespace

const NvrtcSearch& NvrtcCompiler::found() {
  const std::lock_guard lock(mutex_);
  if (!found_) found_ = find_nvrtc();
  return *found_;  // never changed again
}

CompilerDescription NvrtcCompiler::describe() {
  return found().description;
}

std::string NvrtcCompiler::identity() {
  const CompilerDescription& description = found().description;
  base::ensure(description.available, "identity of a compiler that is not available");
  std::string identity = fmt::format("NVRTC {}\n{}\n", description.version, kStandard);
  for (const EmbeddedFile& header : kStandardHeaders) identity += header.text;
  return identity;
}

std::variant<Artifact, CompileFailure> NvrtcCompiler::compile(const KernelSource& source,
                                                              const std::string& work_directory) {
  const NvrtcSearch& nvrtc = found();
  base::ensure(nvrtc.description.available, "compiling without a compiler");
  write_sources(source, work_directory, kSourceFile);

  const bool is_ptx = architecture_.starts_with("compute_");
  const HeaderSet headers(source.headers);
  Program program(*nvrtc.functions, source.text, headers);
  const int status = program.compile({"--gpu-architecture=" + architecture_, kStandard});
  CompileFailure failure{.log = program.log()};
  // Not how it was compiled, but what a toolkit makes of the same source.
  const char* const form = is_ptx ? "ptx" : "cubin";
  failure.command = fmt::format("nvcc -{} {} -arch={} -I {} {} -o kernel.{}", form, kStandard,
                                architecture_, kHeaderDirectory, kSourceFile, form);
  if (status == Nvrtc::kSuccess) {
    const std::string foreign = foreign_header(source.text, headers);
    Artifact code = is_ptx ? program.ptx() : program.cubin();
    if (foreign.empty() && !code.empty()) return code;
    failure.first_error =
        foreign.empty() ? "NVRTC gives no device code" : "the source includes " + foreign;
    failure.advice =
        foreign.empty()
            ? "the architecture must be one of ptxas or of PTX, as in sm_90a, compute_80"
            : "put that file's text into the source: a kernel is known by its content";
    return failure;
  }
  failure.first_error =
      failure.log.empty() ? nvrtc.functions->error_string(status) : first_error_line(failure.log);
  failure.advice =
      advice_for(status, failure.first_error, nvrtc.description.version, architecture_);
  return failure;
}

}  // namespace trencadis::jit
