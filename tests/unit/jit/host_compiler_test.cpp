#include "jit/host_compiler.h"

#include "fixture.h"

namespace trencadis::jit {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class HostCompilerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (find_program("c++").empty()) GTEST_SKIP() << "no C++ compiler here";
    fs::create_directory(work_);
  }

  TemporaryDirectory directory_;
  fs::path work_ = directory_ / "work";
};

TEST_F(HostCompilerTest, CompilesASharedObjectAndLeavesTheSource) {
  HostCompiler compiler;
  const auto result = compiler.compile(answer_kernel(3), work_);
  ASSERT_TRUE(std::holds_alternative<Artifact>(result))
      << std::get<CompileFailure>(result).first_error;
  EXPECT_EQ(read_text(work_ / "kernel.cpp"), answer_kernel(3).text);
  const Module module = Module::load(std::get<Artifact>(result), "answer");
  EXPECT_NE(module.symbol("answer"), nullptr);
}

TEST_F(HostCompilerTest, TheArtifactDoesNotDependOnTheDirectory) {
  HostCompiler compiler;
  fs::create_directory(directory_ / "elsewhere");
  EXPECT_EQ(std::get<Artifact>(compiler.compile(answer_kernel(3), work_)),
            std::get<Artifact>(compiler.compile(answer_kernel(3), directory_ / "elsewhere")));
}

TEST_F(HostCompilerTest, AKernelFindsTheEmbeddedHeadersByTheirPaths) {
  HostCompiler compiler;
  KernelSource source = answer_kernel(0, host_kernel_headers());
  source.text = "#include \"cpu/variant_ops.h\"\n#include \"variant/hooks.h\"\n" + source.text;
  const auto result = compiler.compile(source, work_);
  if (const auto* failure = std::get_if<CompileFailure>(&result)) FAIL() << failure->log;
}

TEST_F(HostCompilerTest, J2_AnotherPathToTheSameCompilerIsTheSameCompiler) {
  HostCompiler usual;
  const std::string usual_path = usual.describe().path;
  fs::create_symlink(fs::canonical(usual_path), directory_ / "my-compiler");
  const ScopedVariable chosen("TRENCADIS_CXX", (directory_ / "my-compiler").string());
  HostCompiler elsewhere;
  EXPECT_NE(elsewhere.describe().path, usual_path);
  EXPECT_TRUE(elsewhere.identity() == usual.identity());  // the text is long
}

TEST_F(HostCompilerTest, J2_AnotherVersionOrTargetIsAnotherCompiler) {
  const std::string usual = HostCompiler().identity();
  const std::string real = find_program("c++");
  write_text(
      directory_ / "newer",
      "#!/bin/sh\n[ \"$1\" = --version ] && echo 'c++ (Distribution 99) 99.1' && exit\nexec " +
          real + " \"$@\"\n");
  write_text(directory_ / "narrower", "#!/bin/sh\nexec " + real + " \"$@\" -D__OTHER_TARGET__\n");
  for (const char* name : {"newer", "narrower"}) {
    fs::permissions(directory_ / name, fs::perms(0755));
    const ScopedVariable chosen("TRENCADIS_CXX", (directory_ / name).string());
    EXPECT_NE(HostCompiler().identity(), usual) << name;
  }
}

TEST_F(HostCompilerTest, TakesACommandWithArguments) {
  const ScopedVariable chosen("TRENCADIS_CXX", "env " + find_program("c++"));
  HostCompiler compiler;
  EXPECT_TRUE(compiler.describe().available) << compiler.describe().reason;
  EXPECT_TRUE(std::holds_alternative<Artifact>(compiler.compile(answer_kernel(1), work_)));
}

TEST_F(HostCompilerTest, PassesOverAUselessCXX) {
  const ScopedVariable usual("CXX", "/nonexistent/c++");
  EXPECT_TRUE(HostCompiler().describe().available);
}

TEST(HostCompiler, J3_AMissingCompilerNamesWhatWasSearched) {
  const ScopedVariable chosen("TRENCADIS_CXX", "/nonexistent/c++");
  const CompilerDescription description = HostCompiler().describe();
  EXPECT_FALSE(description.available);
  EXPECT_THAT(description.reason, AllOf(HasSubstr("/nonexistent/c++ is not found"),
                                        HasSubstr("only it was tried"), HasSubstr("install g++")));
  const ScopedVariable none("TRENCADIS_CXX", "");
  const ScopedVariable usual("CXX", "my-cxx");
  const ScopedVariable path("PATH", "/nonexistent");
  EXPECT_THAT(HostCompiler().describe().reason,
              AllOf(HasSubstr("my-cxx"), HasSubstr("c++"), HasSubstr("g++"), HasSubstr("clang++")));
}

TEST_F(HostCompilerTest, J3_ABrokenCompilerIsNotAvailable) {
  write_text(directory_ / "broken", "#!/bin/sh\nexit 7\n");
  fs::permissions(directory_ / "broken", fs::perms(0755));
  const ScopedVariable chosen("TRENCADIS_CXX", (directory_ / "broken").string());
  EXPECT_THAT(HostCompiler().describe().reason, HasSubstr("failed with exit code 7"));
}

CompileFailure fail_with(const KernelSource& source, const fs::path& work,
                         std::chrono::seconds timeout = std::chrono::seconds(60)) {
  HostCompiler compiler(timeout);
  const auto result = compiler.compile(source, work);
  EXPECT_TRUE(std::holds_alternative<CompileFailure>(result));
  return std::get<CompileFailure>(result);
}

TEST_F(HostCompilerTest, J3_AMissingHeaderIsTheFirstLine) {
  KernelSource source = answer_kernel(1);
  source.text = "#include \"variant/missing.h\"\n" + source.text;
  const CompileFailure failure = fail_with(source, work_);
  EXPECT_THAT(failure.first_error,
              AllOf(StartsWith("kernel.cpp:1"), HasSubstr("variant/missing.h")));
  EXPECT_THAT(failure.command, HasSubstr("kernel.cpp"));
}

TEST_F(HostCompilerTest, J2_AHeaderThatIsNotInTheKeyIsRefused) {
  write_text(directory_ / "mine.h", "inline int one() { return 1; }\n");
  KernelSource source = answer_kernel(1);
  source.text =
      "#include <cmath>\n#include \"" + (directory_ / "mine.h").string() + "\"\n" + source.text;
  EXPECT_THAT(fail_with(source, work_).first_error, HasSubstr("mine.h"));
}

TEST_F(HostCompilerTest, J3_ASyntaxErrorPointsIntoTheUsersText) {
  KernelSource source = answer_kernel(1);
  source.text += "#line 7 \"variant\"\nint f() { return 1 +; }\nint g() { return oops; }\n";
  EXPECT_THAT(fail_with(source, work_).first_error, ContainsRegex("^variant:7:.*error: "));
}

TEST_F(HostCompilerTest, J3_ACompilerKilledForMemorySaysSo) {
  // The driver is killed, or it survives and reports the death of the compiler proper.
  for (const char* death :
       {"kill -9 $$",
        "echo 'c++: fatal error: Killed signal terminated program cc1plus' >&2; exit 1",
        "echo 'clang: error: unable to execute command: Killed' >&2; exit 1",
        "echo 'cc1plus: out of memory allocating 65536 bytes' >&2; exit 1"}) {
    const ScopedVariable chosen("TRENCADIS_CXX", write_compiler(directory_ / "dies", death));
    const CompileFailure failure = fail_with(answer_kernel(1), work_);
    EXPECT_THAT(failure.advice, HasSubstr("out of memory")) << death;
    EXPECT_NE(failure.first_error, "") << death;
  }
}

TEST_F(HostCompilerTest, J3_ACrashIsTheCompilersFault) {
  const ScopedVariable chosen("TRENCADIS_CXX",
                              write_compiler(directory_ / "dies", "kill -SEGV $$"));
  const CompileFailure failure = fail_with(answer_kernel(1), work_);
  EXPECT_THAT(failure.first_error, HasSubstr("killed by signal 11"));
  EXPECT_THAT(failure.advice, HasSubstr("TRENCADIS_CXX"));
}

TEST_F(HostCompilerTest, J3_ACompilerThatHangsIsEnded) {
  const ScopedVariable chosen("TRENCADIS_CXX", write_compiler(directory_ / "hangs", "sleep 60"));
  EXPECT_THAT(fail_with(answer_kernel(1), work_, std::chrono::seconds(1)).first_error,
              HasSubstr("ended after 1 s"));
}

TEST_F(HostCompilerTest, J3_SuccessWithoutAResultIsAFailure) {
  const ScopedVariable chosen("TRENCADIS_CXX", write_compiler(directory_ / "lies", "exit 0"));
  EXPECT_THAT(fail_with(answer_kernel(1), work_).first_error, HasSubstr("says nothing"));
}

TEST(HostArchitecture, NamesTheMachineAndIsStable) {
  EXPECT_THAT(host_architecture(), ContainsRegex("^(x86_64|aarch64) [a-z]"));
  EXPECT_EQ(host_architecture(), host_architecture());
}

}  // namespace
}  // namespace trencadis::jit
