#include "jit/host_compiler.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <sstream>
#include <string_view>

#include "base/check.h"
#include "base/env.h"
#include "base/files.h"
#include "jit/process.h"
#include "jit/work_files.h"

namespace trencadis::jit {
namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;

// Not -ffast-math: kernels rest on IEEE infinities and NaN.
constexpr std::array kFlags = {"-x",
                               "c++",
                               "-std=c++20",
                               "-O3",
                               "-march=native",
                               "-ffp-contract=fast",
                               "-fopenmp-simd",
                               "-fPIC",
                               "-fno-math-errno",
                               "-fno-trapping-math"};
constexpr const char* kSourceFile = "kernel.cpp";
constexpr const char* kArtifactFile = "kernel.so";
constexpr const char* kDependencyFile = "kernel.d";  // what the source included, as make wants it

// The instruction sets that compilers generate for numeric code. The rest of what Linux lists
// (mitigations, virtualisation, counters) changes with the kernel and not with the processor.
constexpr std::array kInstructionSets = {"adx"sv,
                                         "aes"sv,
                                         "amx_bf16"sv,
                                         "amx_int8"sv,
                                         "amx_tile"sv,
                                         "avx"sv,
                                         "avx2"sv,
                                         "avx512_bf16"sv,
                                         "avx512_bitalg"sv,
                                         "avx512_fp16"sv,
                                         "avx512_vbmi2"sv,
                                         "avx512_vnni"sv,
                                         "avx512_vpopcntdq"sv,
                                         "avx512bw"sv,
                                         "avx512cd"sv,
                                         "avx512dq"sv,
                                         "avx512f"sv,
                                         "avx512ifma"sv,
                                         "avx512vbmi"sv,
                                         "avx512vl"sv,
                                         "avx_vnni"sv,
                                         "bmi1"sv,
                                         "bmi2"sv,
                                         "f16c"sv,
                                         "fma"sv,
                                         "fma4"sv,
                                         "gfni"sv,
                                         "lzcnt"sv,
                                         "abm"sv,
                                         "movbe"sv,
                                         "pclmulqdq"sv,
                                         "popcnt"sv,
                                         "sse4_1"sv,
                                         "sse4_2"sv,
                                         "sse4a"sv,
                                         "ssse3"sv,
                                         "vaes"sv,
                                         "vpclmulqdq"sv,
                                         "xop"sv};

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> result;
  for (std::string word; stream >> word;) result.push_back(word);
  return result;
}

std::string_view first_line(std::string_view text) {
  return text.substr(0, text.find('\n'));
}

/// Messages in English, to be read by this room as well; temporary files where they are cleared.
ProcessOptions compiler_options(std::chrono::seconds timeout, const std::string& directory = "") {
  ProcessOptions options;
  options.directory = directory;
  options.environment = {"LC_ALL=C"};
  if (!directory.empty()) options.environment.push_back("TMPDIR=" + directory);
  options.timeout = timeout;
  return options;
}

constexpr std::chrono::seconds kQueryTimeout(30);

/// The first file that the source included besides system headers and those that came with it; ""
/// where there is none. Its content is not in the key, so a change of it would go unseen.
std::string foreign_header(const fs::path& directory) {
  const std::string headers = std::string(kHeaderDirectory) + "/";
  for (const std::string& word : words(base::read_file(directory / kDependencyFile))) {
    const bool known =
        word.starts_with(headers) || word == kSourceFile || word == "\\" || word.ends_with(':');
    if (!known) return word;
  }
  return "";
}

std::string how_it_ended(const ProcessResult& result) {
  if (result.timed_out) return "did not end in time";
  if (result.signal != 0) return fmt::format("was killed by signal {}", result.signal);
  return fmt::format("failed with exit code {}", result.exit_code);
}

bool succeeded(const ProcessResult& result) {
  return result.exit_code == 0 && result.signal == 0 && !result.timed_out;
}

/// Fills version or reason.
CompilerDescription try_compiler(const std::vector<std::string>& command) {
  CompilerDescription description{.name = "host", .path = command.front()};
  std::vector<std::string> arguments = command;
  arguments.emplace_back("--version");
  try {
    const ProcessResult result = run_process(arguments, compiler_options(kQueryTimeout));
    description.available = succeeded(result);
    description.version = first_line(result.output);
    if (!description.available) {
      description.reason = fmt::format("{} --version {}", command.front(), how_it_ended(result));
    }
  } catch (const Error& error) {
    description.reason = error.what();
  }
  return description;
}

Artifact read_artifact(const fs::path& path) {
  const std::string bytes = base::read_file(path);
  const auto* begin = reinterpret_cast<const std::byte*>(bytes.data());
  return Artifact(begin, begin + bytes.size());
}

/// GCC and clang mark errors alike. "fatal error" holds "error" too.
std::string first_error_line(const std::string& log) {
  std::istringstream lines(log);
  std::string first;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("error: ") != std::string::npos) return line;
    if (first.empty()) first = line;
  }
  return first.empty() ? "the compiler says nothing" : first;
}

/// The compiler proper is a child of the driver, which reports in words how it died.
bool out_of_memory(const ProcessResult& result) {
  constexpr std::array kWords = {"Killed signal terminated program"sv, "command: Killed"sv,
                                 "annot allocate memory"sv, "out of memory"sv,
                                 "virtual memory exhausted"sv};
  return (result.signal == SIGKILL && !result.timed_out) ||
         std::any_of(kWords.begin(), kWords.end(), [&](std::string_view text) {
           return result.output.find(text) != std::string::npos;
         });
}

CompileFailure describe_failure(const ProcessResult& result, std::chrono::seconds timeout,
                                const std::string& program) {
  CompileFailure failure{.first_error = first_error_line(result.output), .log = result.output};
  if (result.timed_out) {
    failure.first_error = fmt::format("{} was ended after {} s", program, timeout.count());
    failure.advice = "compile the kept source by hand to see what takes so long";
  } else if (out_of_memory(result)) {
    if (result.output.empty()) failure.first_error = program + " was killed";
    failure.advice =
        "the compiler ran out of memory: give it about 1 GB more, or compile on a larger machine "
        "with the same processor and copy the cache directory";
  } else if (result.signal != 0) {
    failure.first_error = fmt::format("{} {}", program, how_it_ended(result));
    failure.advice = "the compiler itself failed; set TRENCADIS_CXX to another one";
  } else {
    failure.advice = "mend the source that the line names";
  }
  return failure;
}

}  // namespace

std::string host_architecture() {
  utsname system{};
  if (uname(&system) != 0) base::fail(ErrorKind::io, "the system does not tell its architecture");
  const std::string text = base::read_file("/proc/cpuinfo");
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool x86 = line.starts_with("flags");
    if (!x86 && !line.starts_with("Features")) continue;
    std::vector<std::string> features = words(line.substr(line.find(':') + 1));
    if (x86) {
      std::erase_if(features, [](const std::string& feature) {
        return std::find(kInstructionSets.begin(), kInstructionSets.end(), feature) ==
               kInstructionSets.end();
      });
    }
    std::sort(features.begin(), features.end());
    return fmt::format("{} {}", system.machine, fmt::join(features, " "));
  }
  base::fail(ErrorKind::io, "/proc/cpuinfo does not list the instruction sets of this {} processor",
             system.machine);
}

const HostCompiler::Found& HostCompiler::found() {
  if (found_) return *found_;
  std::vector<std::string> candidates = {"c++", "g++", "clang++"};
  std::string searched;
  if (const std::string chosen = base::environment("TRENCADIS_CXX"); !chosen.empty()) {
    candidates = {chosen};
    searched = "TRENCADIS_CXX is set, so only it was tried: ";
  } else if (const std::string usual = base::environment("CXX"); !usual.empty()) {
    candidates.insert(candidates.begin(), usual);
  }

  Found result;
  result.description.name = "host";
  std::vector<std::string> reasons;
  for (const std::string& candidate : candidates) {
    result.command = words(candidate);
    if (result.command.empty()) continue;
    result.command.front() = find_program(result.command.front());
    if (result.command.front().empty()) {
      reasons.push_back(candidate + " is not found");
      continue;
    }
    CompilerDescription description = try_compiler(result.command);
    if (description.available) {
      result.description = description;
      return found_.emplace(std::move(result));
    }
    reasons.push_back(description.reason);
  }
  result.description.reason =
      fmt::format("no C++ compiler: {}{}; install g++ or set TRENCADIS_CXX to a C++20 compiler",
                  searched, fmt::join(reasons, ", "));
  return found_.emplace(std::move(result));
}

CompilerDescription HostCompiler::describe() {
  const std::lock_guard lock(mutex_);
  return found().description;
}

std::string HostCompiler::identity() {
  const std::lock_guard lock(mutex_);
  if (identity_) return *identity_;
  const Found& compiler = found();
  base::ensure(compiler.description.available, "identity of a compiler that is not available");

  // GCC's first line begins with the name that it was called by: "c++ (Debian 12.2.0-14) 12.2.0".
  std::string version = compiler.description.version;
  if (const auto end = version.find(' '); version.compare(end + 1, 1, "(") == 0) {
    version.erase(0, end + 1);
  }

  // What it predefines under these flags: target, what "native" stands for here, ABI.
  std::vector<std::string> arguments = compiler.command;
  arguments.insert(arguments.end(), kFlags.begin(), kFlags.end());
  for (const char* argument : {"-dM", "-E", "/dev/null"}) arguments.emplace_back(argument);
  const ProcessResult macros = run_process(arguments, compiler_options(kQueryTimeout));
  if (!succeeded(macros)) {
    base::fail(ErrorKind::not_supported, "the compiler {} {} on the flags of kernels: {}",
               compiler.command.front(), how_it_ended(macros), first_error_line(macros.output));
  }
  const std::vector<std::string> extra(compiler.command.begin() + 1, compiler.command.end());
  identity_ = fmt::format("{}\n{} {}\n{}", version, fmt::join(extra, " "), fmt::join(kFlags, " "),
                          macros.output);
  return *identity_;
}

std::variant<Artifact, CompileFailure> HostCompiler::compile(const KernelSource& source,
                                                             const std::string& work_directory) {
  std::vector<std::string> arguments;
  {
    const std::lock_guard lock(mutex_);
    base::ensure(found().description.available, "compiling without a compiler");
    arguments = found().command;
  }
  const std::string program = arguments.front();
  arguments.insert(arguments.end(), kFlags.begin(), kFlags.end());
  // Relative paths, in the work directory: nothing in the artifact or in a message depends on it.
  for (const char* argument : {"-shared", "-I", kHeaderDirectory, "-MMD", "-MF", kDependencyFile,
                               kSourceFile, "-o", kArtifactFile}) {
    arguments.emplace_back(argument);
  }

  const fs::path directory(work_directory);
  write_sources(source, directory, kSourceFile);
  const ProcessResult result = run_process(arguments, compiler_options(timeout_, work_directory));
  CompileFailure failure;
  std::error_code missing;
  if (succeeded(result) && fs::file_size(directory / kArtifactFile, missing) > 0 && !missing) {
    const std::string foreign = foreign_header(directory);
    if (foreign.empty()) return read_artifact(directory / kArtifactFile);
    failure = {.first_error = fmt::format("the source includes {}", foreign),
               .advice = "put that file's text into the source: a kernel is known by its content",
               .log = result.output,
               .command = ""};
  } else {
    failure = describe_failure(result, timeout_, program);
  }
  failure.command = fmt::format("{}", fmt::join(arguments, " "));
  return failure;
}

}  // namespace trencadis::jit
