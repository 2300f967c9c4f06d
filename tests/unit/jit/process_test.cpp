#include "jit/process.h"

#include <csignal>

#include "fixture.h"

namespace trencadis::jit {
namespace {

using ::testing::HasSubstr;

ProcessResult shell(const std::string& script, ProcessOptions options = {}) {
  return run_process({"/bin/sh", "-c", script}, options);
}

TEST(Process, CollectsBothStreamsAndTheExitCode) {
  const ProcessResult result = shell("echo out; echo err >&2; exit 3");
  EXPECT_EQ(result.output, "out\nerr\n");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.signal, 0);
}

TEST(Process, TellsTheSignalThatKilledIt) {
  EXPECT_EQ(shell("kill -9 $$").signal, SIGKILL);
}

TEST(Process, RunsInADirectoryWithVariables) {
  const TemporaryDirectory directory;
  ProcessOptions options;
  options.directory = directory.path();
  options.environment = {"TRENCADIS_TEST_WORD=blue"};
  const ProcessResult result = shell("pwd; echo $TRENCADIS_TEST_WORD", options);
  EXPECT_EQ(result.output, directory.path().string() + "\nblue\n");
}

TEST(Process, ReplacesAVariableInsteadOfAddingASecond) {
  const ScopedVariable outer("TRENCADIS_TEST_WORD", "red");
  ProcessOptions options;
  options.environment = {"TRENCADIS_TEST_WORD=blue"};
  EXPECT_EQ(shell("env | grep ^TRENCADIS_TEST_WORD", options).output, "TRENCADIS_TEST_WORD=blue\n");
}

TEST(Process, ArgumentsAreNotReadByAShell) {
  EXPECT_EQ(run_process({"/bin/echo", "$HOME; exit 1", "*"}).output, "$HOME; exit 1 *\n");
}

TEST(Process, EndsTheWholeGroupAtTheTimeout) {
  const TemporaryDirectory directory;
  ProcessOptions options;
  options.timeout = std::chrono::seconds(0);
  const std::string late = (directory / "late").string();
  const ProcessResult result = shell("(sleep 1; touch " + late + ") & wait", options);
  EXPECT_TRUE(result.timed_out);
  sleep(2);
  EXPECT_FALSE(fs::exists(late)) << "a grandchild outlived the timeout";
}

TEST(Process, EndsThoughAGrandchildKeepsTheOutputOpen) {
  ProcessOptions options;
  options.timeout = std::chrono::seconds(20);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(shell("sleep 30 & echo done", options).output, "done\n");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(Process, KeepsTheBeginningOfEndlessOutput) {
  const ProcessResult result = shell("yes | head -c 3000000");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output.size(), std::size_t{1} << 20);
}

TEST(Process, WorksInAProgramThatIgnoresItsChildren) {
  // Then the system keeps no exit status; the call must end all the same.
  const pid_t child = start_process([] {
    std::signal(SIGCHLD, SIG_IGN);
    return shell("echo fine").output == "fine\n" ? 0 : 1;
  });
  EXPECT_EQ(wait_for(child), 0);
}

TEST(Process, SaysWhatCannotBeStarted) {
  EXPECT_THAT(error_text(ErrorKind::io, [] { run_process({"/nonexistent/compiler"}); }),
              HasSubstr("/nonexistent/compiler"));
}

TEST(Process, FindsProgramsAsAShellDoes) {
  EXPECT_EQ(find_program("/bin/sh"), "/bin/sh");
  EXPECT_EQ(find_program("/nonexistent/sh"), "");
  EXPECT_EQ(find_program("no-such-program-anywhere"), "");
  const TemporaryDirectory directory;
  write_compiler(directory / "mine", "");
  write_text(directory / "not-executable", "");
  const ScopedVariable path("PATH", "::/nonexistent:" + directory.path().string());
  EXPECT_EQ(find_program("mine"), (directory / "mine").string());
  EXPECT_EQ(find_program("not-executable"), "");
}

}  // namespace
}  // namespace trencadis::jit
