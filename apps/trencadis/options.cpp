#include "options.h"

#include <charconv>
#include <string_view>
#include <utility>

#include "output/failure.h"

namespace trencadis::app {
namespace {

// A batch that no plan could hold is a slip of the pen.
constexpr std::int64_t kMaxRequests = 1'000'000;
constexpr std::int64_t kMaxTokens = std::int64_t{1} << 30;

bool take_int(std::string_view& text, std::int64_t& value) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  return true;
}

bool take_char(std::string_view& text, char expected) {
  if (text.empty() || text.front() != expected) return false;
  text.remove_prefix(1);
  return true;
}

bool in_range(std::int64_t value, std::int64_t low, std::int64_t high) {
  return value >= low && value <= high;
}

void append_lengths(std::string_view item, std::vector<RequestLengths>& lengths) {
  std::string_view rest = item;
  RequestLengths request;
  std::int64_t repeat = 1;
  const bool ok =
      take_int(rest, request.query) && take_char(rest, ':') && take_int(rest, request.kv) &&
      (rest.empty() || (take_char(rest, 'x') && take_int(rest, repeat))) && rest.empty();
  if (!ok || !in_range(request.query, 0, kMaxTokens) || !in_range(request.kv, 0, kMaxTokens) ||
      !in_range(repeat, 1, kMaxRequests))
    fail(ErrorKind::invalid_argument,
         "--lengths has \"{}\", expected query:kv or query:kvxREPEAT as in 1:4096 or 512:512x8",
         item);
  if (static_cast<std::int64_t>(lengths.size()) + repeat > kMaxRequests)
    fail(ErrorKind::invalid_argument, "--lengths names more than {} requests", kMaxRequests);
  lengths.insert(lengths.end(), static_cast<std::size_t>(repeat), request);
}

/// Throws what CLI11 passes on as it is; a ValidationError would get the option's name once more.
template <class T>
CLI::Validator number(std::string option, std::int64_t low, std::int64_t high) {
  const auto take = [=](std::string& text) {
    T value{};
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    // Not a number at all includes NaN, which is in no range.
    if (error != std::errc{} || rest != end || !(value >= static_cast<T>(low)) ||
        !(value <= static_cast<T>(high)))
      throw CLI::ConversionError(
          fmt::format("{} is {}, expected {} or more, at most {}", option, text, low, high));
    text = fmt::format("{}", value);  // CLI11 would read a leading zero as octal
    return std::string();
  };
  return {take, ""};
}

}  // namespace

CLI::Validator whole_number(std::string option, std::int64_t low, std::int64_t high) {
  return number<std::int64_t>(std::move(option), low, high);
}

CLI::Validator real_number(std::string option, std::int64_t low, std::int64_t high) {
  return number<double>(std::move(option), low, high);
}

void ModelOptions::add_to(CLI::App& command, bool with_layers) {
  std::string names;
  for (const ModelShape& known : known_models()) {
    if (!names.empty()) names += ", ";
    names += known.name;
  }
  auto* by_name = command.add_option("--model", model, "attention shape of a model: " + names)
                      ->capture_default_str();
  command.add_option("--heads", heads, "a shape of your own: H_q:H_kv:D, as in 32:8:128")
      ->excludes(by_name);
  if (with_layers)
    command.add_option("--layers", layers, "layers to run (default: the model's)")
        ->check(whole_number("--layers", 1, kMaxLayers));
}

ModelShape ModelOptions::shape() const {
  ModelShape shape = heads.empty() ? find_model(model) : parse_heads(heads);
  if (layers > 0) shape.num_layers = layers;
  return shape;
}

void ScheduleOptions::add_to(CLI::App& command) {
  command
      .add_option("--split", split,
                  "where KV is split over queues: auto, none, or every so many tokens")
      ->capture_default_str();
  command.add_option("--scheduler", scheduler, "auto, even-cut, longest-first or l2-windows")
      ->capture_default_str();
  command.add_flag("--batch-invariant", batch_invariant,
                   "a request's bits do not depend on the rest of the batch");
}

PlanOptions ScheduleOptions::plan_options() const {
  PlanOptions options;
  options.batch_invariant = batch_invariant;
  std::string_view tokens = split;
  if (split == "none") {
    options.split = SplitMode::none;
  } else if (split != "auto") {
    options.split = SplitMode::fixed;
    if (!take_int(tokens, options.fixed_split_tokens) || !tokens.empty() ||
        !in_range(options.fixed_split_tokens, 1, kMaxTokens))
      fail(ErrorKind::invalid_argument,
           "--split is \"{}\", expected auto, none or a number of tokens", split);
  }
  if (scheduler == "even-cut")
    options.scheduler = Scheduler::even_cut;
  else if (scheduler == "longest-first")
    options.scheduler = Scheduler::longest_first;
  else if (scheduler == "l2-windows")
    options.scheduler = Scheduler::l2_windows;
  else if (scheduler != "auto")
    fail(ErrorKind::invalid_argument,
         "--scheduler is \"{}\", expected auto, even-cut, longest-first or l2-windows", scheduler);
  return options;
}

DType parse_storage_dtype(const std::string& name) {
  const DType dtype = parse_dtype(name);
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16)
    fail(ErrorKind::invalid_argument, "--dtype is {}, expected float32, float16 or bfloat16",
         to_string(dtype));
  return dtype;
}

std::vector<RequestLengths> parse_lengths(const std::vector<std::string>& items) {
  std::vector<RequestLengths> lengths;
  for (const std::string& argument : items) {
    std::string_view rest = argument;
    while (true) {
      const std::size_t comma = rest.find(',');
      append_lengths(rest.substr(0, comma), lengths);
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
  }
  return lengths;
}

}  // namespace trencadis::app
