// Serving traces: when requests came, how long their prompts and answers were. Read a line at a
// time, so that a file of millions of rows costs no more memory than a short one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace trencadis::app {

struct TraceRequest {
  double arrival_s = 0.0;          // since the first request of the trace
  std::int64_t input_tokens = 0;   // >= 1
  std::int64_t output_tokens = 0;  // >= 0
  std::int64_t line = 0;           // in the file, from 1
};

/// A trace in order of arrival. Every failure is an Error(io) that starts with "file:line:".
class TraceReader {
 public:
  virtual ~TraceReader() = default;

  /// The next request, or nothing at the end. Throws Error(io): a malformed line, a length outside
  /// of 1 .. 2^30 tokens, a time before the previous one.
  std::optional<TraceRequest> next();

  const std::string& name() const { return name_; }

 protected:
  /// One row as the file has it.
  struct Row {
    std::int64_t time_ns = 0;  // any origin
    std::int64_t input_tokens = 0;
    std::int64_t output_tokens = 0;
    std::int64_t line = 0;
  };

  explicit TraceReader(std::string name) : name_(std::move(name)) {}
  virtual std::optional<Row> read_row() = 0;
  [[noreturn]] void bad_line(std::int64_t line, std::string_view problem) const;

 private:
  std::string name_;
  std::optional<std::int64_t> first_ns_;
  std::int64_t last_ns_ = 0;
};

/// Opens the Azure CSV (TIMESTAMP, ContextTokens, GeneratedTokens) or the Mooncake JSONL format
/// (timestamp in ms, input_length, output_length). The extensions .csv, .jsonl and .json decide;
/// with any other, a first line that starts with '{' is JSON.
/// Throws Error(io): no such file, a directory, a header without the columns.
std::unique_ptr<TraceReader> open_trace(const std::string& path);

/// The same over text in memory, which must outlive the reader. `name` is what errors call it.
std::unique_ptr<TraceReader> open_trace_text(const std::string& name, std::string_view text);

/// What a replay wants to know before it starts.
struct TraceSummary {
  std::int64_t requests = 0;
  std::int64_t input_tokens = 0;
  std::int64_t output_tokens = 0;
  TraceRequest longest;  // most tokens, prompt and answer together
};

/// Reads the first `max_requests` requests (0: all), so that a bad line is known before any work is
/// done. Throws Error(io) as next() does, and where there is no request at all.
TraceSummary scan_trace(const std::string& path, std::int64_t max_requests);

}  // namespace trencadis::app
