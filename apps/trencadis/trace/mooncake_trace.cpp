// One JSON object a line: {"timestamp": ms, "input_length": n, "output_length": n, "hash_ids": []}.
// The hash ids (shared prefixes) are not kept: the replay gives every request pages of its own.

#define CSV_IO_NO_THREAD
#include <libfccp/csv.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "output/failure.h"
#include "trace/formats.h"

namespace trencadis::app {
namespace {

using nlohmann::json;

class MooncakeTrace final : public TraceReader {
 public:
  template <class... Source>
  explicit MooncakeTrace(const std::string& name, Source... source)
      : TraceReader(name), lines_(name, source...) {}

 private:
  std::optional<Row> read_row() override {
    const char* text = next_filled_line();
    if (text == nullptr) return std::nullopt;
    Row row;
    row.line = lines_.get_file_line();
    const json object = json::parse(text, drop_hash_ids, /*allow_exceptions=*/false);
    if (!object.is_object())
      bad_line(row.line, fmt::format("{} is not a JSON object", quote_excerpt(text)));
    row.time_ns = time_ns(object, row.line);
    row.input_tokens = count(object, "input_length", row.line);
    row.output_tokens = count(object, "output_length", row.line);
    return row;
  }

  static bool drop_hash_ids(int depth, json::parse_event_t event, json& parsed) {
    return !(depth == 1 && event == json::parse_event_t::key && parsed == "hash_ids");
  }

  const char* next_filled_line() {
    try {
      const char* text = lines_.next_line();
      while (text != nullptr && io::empty_line_comment::is_comment(text)) text = lines_.next_line();
      return text;
    } catch (const io::error::base&) {
      bad_line(lines_.get_file_line(), "the line is longer than 16 MiB");
    }
  }

  const json& member(const json& object, const char* key, std::int64_t line) const {
    const auto found = object.find(key);
    if (found == object.end())
      bad_line(line, fmt::format("the object has no \"{}\", expected timestamp, input_length and "
                                 "output_length",
                                 key));
    return *found;
  }

  std::int64_t time_ns(const json& object, std::int64_t line) const {
    const json& value = member(object, "timestamp", line);
    // 64-bit nanoseconds end after 9.2e12 ms.
    const double ms = value.is_number() ? value.get<double>() : -1.0;
    if (!(ms >= 0.0 && ms < 9e12))
      bad_line(line, fmt::format("timestamp is {}, expected milliseconds >= 0",
                                 quote_excerpt(value.dump(-1, ' ', true, kReplace))));
    return std::llround(ms * 1e6);
  }

  std::int64_t count(const json& object, const char* key, std::int64_t line) const {
    const json& value = member(object, key, line);
    if (!value.is_number_integer() ||
        (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX))
      bad_line(line, fmt::format("{} is {}, expected a whole number of tokens", key,
                                 quote_excerpt(value.dump(-1, ' ', true, kReplace))));
    return value.get<std::int64_t>();
  }

  // Text that is not UTF-8 must not make the error message itself throw.
  static constexpr auto kReplace = json::error_handler_t::replace;

  io::LineReader lines_;
};

}  // namespace

std::unique_ptr<TraceReader> open_mooncake_trace(const std::string& path) {
  return std::make_unique<MooncakeTrace>(path);
}

std::unique_ptr<TraceReader> open_mooncake_trace_text(const std::string& name,
                                                      std::string_view text) {
  return std::make_unique<MooncakeTrace>(name, text.data(), text.data() + text.size());
}

}  // namespace trencadis::app
