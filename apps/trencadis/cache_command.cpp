#include "cache_command.h"

#include <fmt/format.h>
#include <trencadis/runtime.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "exit_status.h"

namespace trencadis::app {
namespace {

void print_json(const std::vector<CacheEntry>& entries) {
  using nlohmann::ordered_json;
  ordered_json list = ordered_json::array();
  for (const CacheEntry& entry : entries)
    list.push_back({{"key", entry.key},
                    {"name", entry.name},
                    {"compiler", entry.compiler},
                    {"bytes", entry.bytes},
                    {"intact", entry.intact},
                    {"problem", entry.problem}});
  fmt::print("{}\n", ordered_json{{"directory", cache_directory()}, {"entries", list}}.dump(1));
}

void print(const std::vector<CacheEntry>& entries, const char* intact_word) {
  fmt::print("{} kernels in {}\n", entries.size(), cache_directory());
  if (entries.empty()) return;
  std::size_t width = 4;
  for (const CacheEntry& entry : entries) width = std::max(width, entry.name.size());
  fmt::print("{:32}  {:{}}  {:>9}  compiler\n", "key", "name", width, "bytes");
  for (const CacheEntry& entry : entries)
    fmt::print("{:32}  {:{}}  {:>9}  {}\n", entry.key, entry.name, width, entry.bytes,
               entry.intact ? entry.compiler + intact_word : "DAMAGED: " + entry.problem);
}

void verify(bool json) {
  const std::vector<CacheEntry> entries = cache_verify();
  if (json)
    print_json(entries);
  else
    print(entries, ", intact");
  const auto damaged = std::count_if(entries.begin(), entries.end(),
                                     [](const CacheEntry& entry) { return !entry.intact; });
  if (damaged > 0)
    throw WrongResult(
        fmt::format("{} of {} kernels in {} are damaged; each is compiled again when it is needed, "
                    "or remove all with: trencadis cache clear",
                    damaged, entries.size(), cache_directory()));
}

void clear() {
  const std::int64_t removed = cache_clear();
  fmt::print("removed {} kernels from {}\n", removed, cache_directory());
}

}  // namespace

void add_cache_command(CLI::App& app) {
  CLI::App& command = *app.add_subcommand("cache", "List, check or remove compiled kernels");
  command.require_subcommand(1);
  command.footer(
      "The directory is $TRENCADIS_CACHE_DIR, else $XDG_CACHE_HOME/trencadis, else "
      "~/.cache/trencadis.");
  const auto json = std::make_shared<bool>(false);
  CLI::App& list = *command.add_subcommand("list", "What is there");
  list.add_flag("--json", *json, "print JSON");
  list.callback([json] {
    if (*json)
      print_json(cache_list());
    else
      print(cache_list(), "");
  });
  CLI::App& check = *command.add_subcommand(
      "verify", "Read every kernel and compare its checksum; exit status 3 where one is damaged");
  check.add_flag("--json", *json, "print JSON");
  check.callback([json] { verify(*json); });
  command.add_subcommand("clear", "Remove every kernel")->callback(clear);
}

}  // namespace trencadis::app
