// TIMESTAMP,ContextTokens,GeneratedTokens: the Azure LLM inference traces of 2023 and 2024.

// The parser is fast enough without a read-ahead thread, and the fuzzer opens thousands of readers.
#define CSV_IO_NO_THREAD
#include <libfccp/csv.h>

#include <charconv>
#include <cstring>

#include "output/failure.h"
#include "trace/formats.h"
#include "trace/timestamp.h"

namespace trencadis::app {
namespace {

constexpr const char* kTime = "TIMESTAMP";
constexpr const char* kInput = "ContextTokens";
constexpr const char* kOutput = "GeneratedTokens";

using Csv = io::CSVReader<3, io::trim_chars<' ', '\t'>, io::double_quote_escape<',', '"'>,
                          io::throw_on_overflow, io::empty_line_comment>;

class AzureTrace final : public TraceReader {
 public:
  template <class... Source>
  explicit AzureTrace(const std::string& name, Source... source)
      : TraceReader(name), csv_(name, source...) {
    try {
      csv_.read_header(io::ignore_extra_column, kTime, kInput, kOutput);
    } catch (const io::error::missing_column_in_header& error) {
      bad_line(csv_.get_file_line(),
               fmt::format("the header has no column {}, expected {}, {} and {}", error.column_name,
                           kTime, kInput, kOutput));
    } catch (const io::error::duplicated_column_in_header& error) {
      bad_line(csv_.get_file_line(),
               fmt::format("the header names column {} twice", error.column_name));
    } catch (const io::error::header_missing&) {
      bad_line(1, fmt::format("the file is empty, expected a header with {}, {} and {}", kTime,
                              kInput, kOutput));
    } catch (const io::error::base&) {
      bad_line(csv_.get_file_line(), "the header cannot be read: an open quote or an endless line");
    }
  }

 private:
  std::optional<Row> read_row() override {
    char *time = nullptr, *input = nullptr, *output = nullptr;
    if (!read_fields(time, input, output)) return std::nullopt;
    Row row;
    row.line = csv_.get_file_line();
    const auto time_ns = parse_timestamp(time);
    if (!time_ns)
      bad_line(row.line, fmt::format("{} is {}, expected YYYY-MM-DD hh:mm:ss[.fraction]", kTime,
                                     quote_excerpt(time)));
    row.time_ns = *time_ns;
    row.input_tokens = count(kInput, input, row.line);
    row.output_tokens = count(kOutput, output, row.line);
    return row;
  }

  bool read_fields(char*& time, char*& input, char*& output) {
    try {
      return csv_.read_row(time, input, output);
    } catch (const io::error::too_few_columns&) {
      bad_line(csv_.get_file_line(), "the line has fewer columns than the header");
    } catch (const io::error::too_many_columns&) {
      bad_line(csv_.get_file_line(), "the line has more columns than the header");
    } catch (const io::error::escaped_string_not_closed&) {
      bad_line(csv_.get_file_line(), "a quoted field is not closed");
    } catch (const io::error::base&) {
      bad_line(csv_.get_file_line(), "the line is longer than 16 MiB");
    }
  }

  std::int64_t count(const char* column, const char* text, std::int64_t line) const {
    std::int64_t value = 0;
    const char* end = text + std::strlen(text);
    const auto [rest, error] = std::from_chars(text, end, value);
    if (error != std::errc{} || rest != end)
      bad_line(line, fmt::format("{} is {}, expected a whole number of tokens", column,
                                 quote_excerpt(text)));
    return value;
  }

  Csv csv_;
};

}  // namespace

std::unique_ptr<TraceReader> open_azure_trace(const std::string& path) {
  return std::make_unique<AzureTrace>(path);
}

std::unique_ptr<TraceReader> open_azure_trace_text(const std::string& name, std::string_view text) {
  return std::make_unique<AzureTrace>(name, text.data(), text.data() + text.size());
}

std::string quote_excerpt(std::string_view text) {
  constexpr std::size_t kLongest = 40;
  std::string quoted = "\"";
  for (const char c : text.substr(0, kLongest)) quoted += c >= ' ' && c <= '~' ? c : '?';
  return quoted + (text.size() > kLongest ? "...\"" : "\"");
}

}  // namespace trencadis::app
