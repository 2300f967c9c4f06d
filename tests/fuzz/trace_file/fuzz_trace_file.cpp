// Any bytes are either a trace in order of arrival with sane lengths, or an Error(io) that begins
// with the file's name and a line. The first byte picks the extension.

#include <trencadis/error.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "trace/trace_reader.h"

namespace {

using namespace trencadis;

struct Outcome {
  std::vector<std::array<std::int64_t, 3>> requests;  // line, input, output
  std::string error;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

void require(bool ok) {
  if (!ok) std::abort();
}

void check_error(const Error& error, const std::string& name) {
  const std::string_view text = error.what();
  require(error.kind() == ErrorKind::io);
  require(text.substr(0, name.size() + 1) == name + ":");
  require(text.find('\n') == std::string_view::npos);
  const std::size_t digit = name.size() + 1;
  require(digit < text.size() && text[digit] >= '0' && text[digit] <= '9');
}

Outcome read_all(const std::string& name, std::string_view text) {
  Outcome outcome;
  double last_arrival = 0.0;
  std::int64_t last_line = 0;
  try {
    const auto reader = app::open_trace_text(name, text);
    while (const auto request = reader->next()) {
      require(request->arrival_s >= last_arrival && request->line > last_line);
      require(request->input_tokens >= 1 && request->output_tokens >= 0);
      last_arrival = request->arrival_s;
      last_line = request->line;
      outcome.requests.push_back({request->line, request->input_tokens, request->output_tokens});
    }
  } catch (const Error& error) {
    check_error(error, name);
    outcome.error = error.what();
  }
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const std::array<std::string, 3> kNames{"trace.csv", "trace.jsonl", "trace"};
  const std::string& name = kNames[data[0] % kNames.size()];
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  require(read_all(name, text) == read_all(name, text));
  return 0;
}
