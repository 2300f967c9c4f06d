#include "trace/trace_reader.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>

#include "output/failure.h"
#include "trace/formats.h"

namespace trencadis::app {
namespace {

// Positions in a plan are 32 bits wide; half of that leaves room for prompt and answer together.
constexpr std::int64_t kMaxTokens = std::int64_t{1} << 30;

std::string extension_of(const std::string& name) {
  std::string extension = std::filesystem::path(name).extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension;
}

bool is_json(const std::string& name, std::string_view first_bytes) {
  const std::string extension = extension_of(name);
  if (extension == ".csv") return false;
  if (extension == ".jsonl" || extension == ".json") return true;
  const auto first = first_bytes.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  return first != std::string_view::npos && first_bytes[first] == '{';
}

std::string first_bytes_of(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status))
    fail(ErrorKind::io, "{}: no such file; --trace takes an Azure CSV or a Mooncake JSONL trace",
         path);
  if (std::filesystem::is_directory(status))
    fail(ErrorKind::io, "{}: is a directory; name the trace file in it", path);
  if (!std::filesystem::is_regular_file(status))
    fail(ErrorKind::io, "{}: is not a regular file (it is read twice)", path);
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(ErrorKind::io, "{}: cannot be read; check its permissions", path);
  std::string bytes(256, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

}  // namespace

std::optional<TraceRequest> TraceReader::next() {
  const std::optional<Row> row = read_row();
  if (!row) return std::nullopt;
  if (row->input_tokens < 1 || row->input_tokens > kMaxTokens)
    bad_line(row->line, fmt::format("the prompt has {} tokens, expected 1 .. {}", row->input_tokens,
                                    kMaxTokens));
  if (row->output_tokens < 0 || row->output_tokens > kMaxTokens)
    bad_line(row->line, fmt::format("the answer has {} tokens, expected 0 .. {}",
                                    row->output_tokens, kMaxTokens));
  if (!first_ns_) {
    first_ns_ = row->time_ns;
  } else if (row->time_ns < last_ns_) {
    bad_line(row->line, fmt::format("the time is {:.6f} s before the previous request's, expected "
                                    "order of arrival; sort the file by time",
                                    static_cast<double>(last_ns_ - row->time_ns) * 1e-9));
  }
  last_ns_ = row->time_ns;
  return TraceRequest{static_cast<double>(row->time_ns - *first_ns_) * 1e-9, row->input_tokens,
                      row->output_tokens, row->line};
}

void TraceReader::bad_line(std::int64_t line, std::string_view problem) const {
  fail(ErrorKind::io, "{}:{}: {}", name_, line, problem);
}

std::unique_ptr<TraceReader> open_trace(const std::string& path) {
  return is_json(path, first_bytes_of(path)) ? open_mooncake_trace(path) : open_azure_trace(path);
}

std::unique_ptr<TraceReader> open_trace_text(const std::string& name, std::string_view text) {
  return is_json(name, text) ? open_mooncake_trace_text(name, text)
                             : open_azure_trace_text(name, text);
}

TraceSummary scan_trace(const std::string& path, std::int64_t max_requests) {
  const auto reader = open_trace(path);
  TraceSummary summary;
  while (max_requests == 0 || summary.requests < max_requests) {
    const auto request = reader->next();
    if (!request) break;
    ++summary.requests;
    summary.input_tokens += request->input_tokens;
    summary.output_tokens += request->output_tokens;
    const auto tokens = [](const TraceRequest& r) { return r.input_tokens + r.output_tokens; };
    if (tokens(*request) > tokens(summary.longest)) summary.longest = *request;
  }
  if (summary.requests == 0)
    fail(ErrorKind::io, "{}: the trace has no request; expected at least one row after the header",
         path);
  return summary;
}

}  // namespace trencadis::app
