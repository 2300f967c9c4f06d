#include <fmt/format.h>
#include <trencadis/spec_text.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/check.h"

namespace trencadis {
namespace {

using base::check;
using Json = nlohmann::ordered_json;

/// Reads a JSON object by keys and knows afterwards which of its keys nobody asked for.
class Reader {
 public:
  Reader(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
    check(object.is_object(), "{} is {}, expected a JSON object", where_, object.dump());
  }

  bool has(const char* key) const { return object_.contains(key); }

  bool flag(const char* key, bool otherwise = false) {
    return read<bool>(key, otherwise, &Json::is_boolean, "true or false");
  }
  std::int64_t integer(const char* key, std::int64_t otherwise) {
    return read<std::int64_t>(key, otherwise, &Json::is_number_integer, "an integer");
  }
  double number(const char* key, double otherwise) {
    return read<double>(key, otherwise, &Json::is_number, "a number");
  }
  std::string text(const char* key, const std::string& otherwise = "") {
    return read<std::string>(key, otherwise, &Json::is_string, "a string");
  }
  DType dtype(const char* key, DType otherwise) {
    return parse_dtype(text(key, std::string(to_string(otherwise))));
  }
  int head_dim(const char* key, std::int64_t otherwise) {
    const std::int64_t value = integer(key, otherwise);
    check(value >= 0 && value <= INT32_MAX, "{}: {} is {}, expected 0 to {}", where_, key, value,
          INT32_MAX);
    return static_cast<int>(value);
  }

  /// The members of an array of objects.
  std::vector<Reader> objects(const char* key) {
    known_.insert(key);
    std::vector<Reader> readers;
    if (!has(key)) return readers;
    check(object_[key].is_array(), "{}: {} is {}, expected an array", where_, key,
          object_[key].dump());
    for (const Json& member : object_[key])
      readers.emplace_back(member, std::string("spec ") + key);
    return readers;
  }

  /// Throws where a key is left over.
  void finish() const {
    for (const auto& item : object_.items()) {
      check(known_.contains(item.key()), "{} has the key '{}', expected one of {}", where_,
            item.key(), fmt::join(known_, ", "));
    }
  }

 private:
  template <class T>
  T read(const char* key, const T& otherwise, bool (Json::*is)() const noexcept,
         const char* expected) {
    known_.insert(key);
    if (!has(key)) return otherwise;
    const Json& value = object_[key];
    check((value.*is)(), "{}: {} is {}, expected {}", where_, key, value.dump(), expected);
    return value.get<T>();
  }

  const Json& object_;
  std::string where_;
  std::set<std::string> known_;
};

/// A value of the short form: true, 8, 0.5, bf16.
Json short_value(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  const char* end = text.data() + text.size();
  std::int64_t integer = 0;
  if (auto [at, error] = std::from_chars(text.data(), end, integer);
      error == std::errc() && at == end) {
    return integer;
  }
  double number = 0.0;
  if (auto [at, error] = std::from_chars(text.data(), end, number);
      error == std::errc() && at == end) {
    return number;
  }
  return std::string(text);
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const auto begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

/// "causal,soft_cap=30" -> {"causal": true, "soft_cap": 30}
Json parse_short(std::string_view text) {
  Json object = Json::object();
  for (bool more = !trim(text).empty(); more;) {
    const auto comma = text.find(',');
    const std::string_view option = trim(text.substr(0, comma));
    more = comma != std::string_view::npos;
    if (more) text.remove_prefix(comma + 1);
    const auto equals = option.find('=');
    const std::string key(trim(option.substr(0, equals)));
    check(!key.empty(),
          "spec has the option '{}', expected name or name=value, as in "
          "head_dim=128,causal",
          option);
    check(!object.contains(key), "spec gives {} twice", key);
    object[key] = equals == std::string_view::npos ? Json(true)
                                                   : short_value(trim(option.substr(equals + 1)));
  }
  return object;
}

Json parse_long(std::string_view text) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    base::fail(ErrorKind::invalid_argument, "spec is not JSON: {}", error.what());
  }
}

void read_bounds(Reader& spec, bool& causal, std::int64_t& left, std::int64_t& right) {
  causal = spec.flag("causal");
  left = spec.integer("window_left", -1);
  right = spec.integer("window_right", -1);
}

Variant read_custom(Reader& spec) {
  Variant variant;
  variant.functor = spec.text("functor");
  variant.source = spec.text("source");
  for (Reader& tensor : spec.objects("tensors")) {
    variant.tensors.push_back({tensor.text("name"), tensor.dtype("dtype", DType::f32)});
    tensor.finish();
  }
  for (Reader& scalar : spec.objects("scalars")) {
    variant.scalars.push_back({scalar.text("name"), scalar.number("value", 0.0)});
    scalar.finish();
  }
  bool causal = false;
  read_bounds(spec, causal, variant.bounds.left, variant.bounds.right);
  if (causal) variant.bounds.right = 0;
  variant.use_softmax = spec.flag("use_softmax", true);
  variant.sinks = spec.flag("sinks");
  return variant;
}

Variant read_sigmoid(Reader& spec) {
  variants::SigmoidOptions options;
  check(spec.flag("sigmoid"), "spec: sigmoid is false, expected true, or no such key");
  read_bounds(spec, options.causal, options.window_left, options.window_right);
  options.bias = spec.number("sigmoid_bias", 0.0);
  return variants::sigmoid(options);
}

std::optional<variants::Rope> read_rope(Reader& spec) {
  variants::Rope rope;
  const bool wanted = spec.flag("rope");
  const bool detailed =
      spec.has("rope_interleaved") || spec.has("rope_dim") || spec.has("rope_positions");
  check(wanted || !detailed, "spec has options of rope, but not rope itself");
  rope.interleaved = spec.flag("rope_interleaved");
  rope.rotary_dim = spec.head_dim("rope_dim", 0);
  rope.explicit_positions = spec.flag("rope_positions");
  return wanted ? std::optional(rope) : std::nullopt;
}

Variant read_softmax(Reader& spec) {
  variants::SoftmaxOptions options;
  read_bounds(spec, options.causal, options.window_left, options.window_right);
  options.soft_cap = spec.number("soft_cap", 0.0);
  options.alibi = spec.flag("alibi");
  options.custom_mask = spec.flag("custom_mask");
  options.prefix_lm = spec.flag("prefix_lm");
  options.document_mask = spec.flag("document_mask");
  options.sinks = spec.flag("sinks");
  options.rope = read_rope(spec);
  return variants::softmax(options);
}

LseBase read_lse_base(Reader& spec) {
  const std::string base = spec.text("lse_base", "natural");
  check(base == "natural" || base == "two", "spec: lse_base is '{}', expected natural or two",
        base);
  return base == "two" ? LseBase::two : LseBase::natural;
}

}  // namespace

AttentionSpec parse_spec(std::string_view text) {
  const std::string_view trimmed = trim(text);
  const Json object = trimmed.starts_with('{') ? parse_long(trimmed) : parse_short(trimmed);
  Reader reader(object, "spec");
  AttentionSpec spec;
  spec.head_dim_qk = reader.head_dim("head_dim", 128);
  check(spec.head_dim_qk > 0, "spec: head_dim is 0, expected more");
  spec.head_dim_vo = reader.head_dim("head_dim_vo", 0);
  const DType dtype = reader.dtype("dtype", DType::bf16);
  spec.dtype_q = reader.dtype("dtype_q", dtype);
  spec.dtype_kv = reader.dtype("dtype_kv", dtype);
  spec.dtype_o = reader.dtype("dtype_o", dtype);
  spec.lse_base = read_lse_base(reader);
  spec.variant = reader.has("functor")   ? read_custom(reader)
                 : reader.has("sigmoid") ? read_sigmoid(reader)
                                         : read_softmax(reader);
  reader.finish();
  return spec;
}

std::string to_json(const AttentionSpec& spec) {
  const Variant& variant = spec.variant;
  Json object = {{"head_dim", spec.head_dim_qk},
                 {"head_dim_vo", spec.head_dim_vo},
                 {"dtype_q", to_string(spec.dtype_q)},
                 {"dtype_kv", to_string(spec.dtype_kv)},
                 {"dtype_o", to_string(spec.dtype_o)},
                 {"lse_base", spec.lse_base == LseBase::two ? "two" : "natural"},
                 {"functor", variant.functor},
                 {"source", variant.source},
                 {"tensors", Json::array()},
                 {"scalars", Json::array()},
                 {"window_left", variant.bounds.left},
                 {"window_right", variant.bounds.right},
                 {"use_softmax", variant.use_softmax},
                 {"sinks", variant.sinks}};
  for (const ExtraTensor& tensor : variant.tensors) {
    object["tensors"].push_back({{"name", tensor.name}, {"dtype", to_string(tensor.dtype)}});
  }
  for (const ExtraScalar& scalar : variant.scalars) {
    object["scalars"].push_back({{"name", scalar.name}, {"value", scalar.value}});
  }
  // A source that is not UTF-8 is shown as well as it can be; such a spec cannot be read back.
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace trencadis
