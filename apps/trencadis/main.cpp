// The `trencadis` command.

#include <fmt/format.h>
#include <trencadis/error.h>
#include <trencadis/version.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "cache_command.h"
#include "compile_command.h"
#include "exit_status.h"
#include "info_command.h"
#include "plan_command.h"
#include "replay_command.h"

namespace {

using namespace trencadis;

/// One line, whatever the error holds: scripts and logs read it.
int report(std::string message, int status) {
  while (!message.empty() && message.back() == '\n') message.pop_back();
  for (std::size_t at = 0; (at = message.find('\n', at)) != std::string::npos; at += 2)
    message.replace(at, 1, "; ");
  fmt::print(stderr, "trencadis: {}\n", message);
  return status;
}

int run(int argc, char** argv) {
  CLI::App app{
      "Trencadís: exact attention over a KV cache that lies in pieces.\n"
      "Exit status: 0 done, 1 failed, 2 wrong usage, 3 done with wrong results."};
  app.name("trencadis");
  app.set_version_flag("--version", std::string("trencadis ") + TRENCADIS_VERSION_STRING);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  app::add_replay_command(app);
  app::add_plan_command(app);
  app::add_compile_command(app);
  app::add_cache_command(app);
  app::add_info_command(app);

  try {
    app.parse(argc, argv);
    return app::kSuccess;
  } catch (const CLI::Success& request) {  // --help, --version
    return app.exit(request);
  } catch (const CLI::ParseError& error) {
    return report(fmt::format("{}; see trencadis --help", error.what()), app::kUsage);
  }
}

/// What was printed counts only once it has left: the exit would flush it without a word.
int flush_stdout(int status) {
  const bool failed_before = std::ferror(stdout) != 0;
  errno = 0;
  if (std::fflush(stdout) == 0 && !failed_before) return status;
  return report(fmt::format("stdout: cannot be written: {}",
                            errno != 0 ? std::strerror(errno) : "an earlier write failed"),
                app::kFailure);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return flush_stdout(run(argc, argv));
  } catch (const app::WrongResult& error) {
    return report(error.what(), app::kWrongResult);
  } catch (const Error& error) {
    return report(fmt::format("{}: {}", to_string(error.kind()), error.what()), app::kFailure);
  } catch (const std::bad_alloc&) {
    return report("out of memory: this machine has too little for what was asked", app::kFailure);
  } catch (const std::exception& error) {
    return report(error.what(), app::kFailure);
  }
}
