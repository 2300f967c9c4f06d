#include "codegen/validate.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <string>
#include <vector>

#include "base/check.h"
#include "codegen/stock_components.h"
#include "contract/params.h"

namespace trencadis::codegen {
namespace {

using base::check;

constexpr auto kKeywords =
    std::to_array<std::string_view>({"alignas",       "alignof",     "and",
                                     "and_eq",        "asm",         "auto",
                                     "bitand",        "bitor",       "bool",
                                     "break",         "case",        "catch",
                                     "char",          "char16_t",    "char32_t",
                                     "char8_t",       "class",       "co_await",
                                     "co_return",     "co_yield",    "compl",
                                     "concept",       "const",       "const_cast",
                                     "consteval",     "constexpr",   "constinit",
                                     "continue",      "decltype",    "default",
                                     "delete",        "do",          "double",
                                     "dynamic_cast",  "else",        "enum",
                                     "explicit",      "export",      "extern",
                                     "false",         "float",       "for",
                                     "friend",        "goto",        "if",
                                     "inline",        "int",         "long",
                                     "mutable",       "namespace",   "new",
                                     "noexcept",      "not",         "not_eq",
                                     "nullptr",       "operator",    "or",
                                     "or_eq",         "private",     "protected",
                                     "public",        "register",    "reinterpret_cast",
                                     "requires",      "return",      "short",
                                     "signed",        "sizeof",      "static",
                                     "static_assert", "static_cast", "struct",
                                     "switch",        "template",    "this",
                                     "thread_local",  "throw",       "true",
                                     "try",           "typedef",     "typeid",
                                     "typename",      "union",       "unsigned",
                                     "using",         "virtual",     "void",
                                     "volatile",      "wchar_t",     "while",
                                     "xor",           "xor_eq"});

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// type := name ('::' name)* [ '<' [ argument (',' argument)* ] '>' ]; argument := type | integer
class TypeParser {
 public:
  explicit TypeParser(std::string_view text) : rest_(text) {}

  bool parse_all() {
    if (!type(0)) return false;
    skip_spaces();
    return rest_.empty();
  }

 private:
  static constexpr int kMaxDepth = 16;

  void skip_spaces() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t'))
      rest_.remove_prefix(1);
  }

  bool take(std::string_view token) {
    skip_spaces();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  std::string_view word() {
    skip_spaces();
    std::size_t end = 0;
    while (end < rest_.size() && is_word(rest_[end])) ++end;
    const std::string_view result = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return result;
  }

  bool type(int depth) {
    if (depth > kMaxDepth) return false;
    take("::");
    do {
      if (!is_identifier(word())) return false;
    } while (take("::"));
    if (!take("<") || take(">")) return true;
    do {
      if (!argument(depth + 1)) return false;
    } while (take(","));
    return take(">");
  }

  bool argument(int depth) {
    skip_spaces();
    const bool negative = take("-");
    const std::string_view before = rest_;
    const std::string_view text = word();
    const bool digits = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
      return std::isdigit(static_cast<unsigned char>(c)) != 0;
    });
    if (digits || (!negative && (text == "true" || text == "false"))) return true;
    rest_ = before;
    return !negative && type(depth);
  }

  std::string_view rest_;
};

void check_name(std::string_view what, const std::string& name, std::vector<std::string>& taken) {
  check(is_identifier(name),
        "variant {} name '{}' is not a C++ identifier (letters, digits and _; no keyword, no "
        "leading _ or __ inside)",
        what, name);
  check(name != "load", "variant {} name 'load' is taken by the generated struct", what);
  check(std::find(taken.begin(), taken.end(), name) == taken.end(),
        "variant {} name '{}' is declared twice", what, name);
  taken.push_back(name);
}

/// Without a source there is nothing else that a functor can name.
void check_names_are_stock(std::string_view functor) {
  for (std::size_t begin = 0; begin < functor.size();) {
    std::size_t end = begin;
    while (end < functor.size() && is_word(functor[end])) ++end;
    const std::string_view name = functor.substr(begin, end - begin);
    check(name.empty() || name == "Chain" || is_stock_functor(name),
          "variant functor is '{}' and source is empty, but '{}' is no stock functor; expected a "
          "source that defines it, or Chain<...> of {}",
          functor, name, fmt::join(kStockComponents, ", "));
    begin = end + 1;
  }
}

}  // namespace

bool is_identifier(std::string_view name) {
  if (name.empty() || name.size() > 128) return false;
  if (name.front() == '_' || std::isdigit(static_cast<unsigned char>(name.front())) != 0)
    return false;
  if (!std::all_of(name.begin(), name.end(), is_word)) return false;
  if (name.find("__") != std::string_view::npos) return false;
  return std::find(kKeywords.begin(), kKeywords.end(), name) == kKeywords.end();
}

bool is_type_expression(std::string_view text) {
  return TypeParser(text).parse_all();
}

void validate(const Variant& variant) {
  check(is_type_expression(variant.functor),
        "variant functor is '{}', expected a C++ type such as MyVariant or Chain<SoftCap, Mine>",
        variant.functor);
  check(variant.source.empty() || !is_stock_functor(variant.functor),
        "variant functor '{}' is a stock functor, but the variant has a source: choose another "
        "name",
        variant.functor);
  check(variant.source.find('\0') == std::string::npos, "variant source holds a NUL character");
  check(variant.tensors.size() <= contract::kMaxExtraTensors,
        "variant has {} extra tensors, expected at most {}", variant.tensors.size(),
        contract::kMaxExtraTensors);
  check(variant.scalars.size() <= contract::kMaxExtraScalars,
        "variant has {} extra scalars, expected at most {}", variant.scalars.size(),
        contract::kMaxExtraScalars);
  std::vector<std::string> taken;
  for (const ExtraTensor& tensor : variant.tensors) check_name("tensor", tensor.name, taken);
  for (const ExtraScalar& scalar : variant.scalars) {
    check_name("scalar", scalar.name, taken);
    check(std::isfinite(scalar.value), "variant scalar '{}' is {}, expected a finite number",
          scalar.name, scalar.value);
  }
  const auto check_bound = [](const char* side, std::int64_t bound) {
    check(bound >= -1 && bound <= MaskBounds::kMost,
          "variant bounds.{} is {}, expected -1 (unbounded) or more, at most 2^62", side, bound);
  };
  check_bound("left", variant.bounds.left);
  check_bound("right", variant.bounds.right);
  if (variant.sinks && !variant.use_softmax)
    base::fail(ErrorKind::not_supported,
               "sinks join a softmax denominator, and the variant '{}' has use_softmax = false",
               variant.functor);
  if (!variant.source.empty()) return;
  check_names_are_stock(variant.functor);
  // In another order than the usual one, stock functors are compiled like a user's; what they read
  // is then the compiler's to check.
  if (const auto components = parse_stock_chain(variant.functor))
    check_stock_arguments(variant, *components);
}

void validate(const AttentionSpec& spec) {
  const Variant& variant = spec.variant;
  validate(variant);
  const std::size_t i = index_of(variant.scalars, "rope_dim");
  const auto components = parse_stock_chain(variant.functor);
  if (!components || (*components & kRope) == 0 || i == variant.scalars.size()) return;
  const double rope_dim = variant.scalars[i].value;
  check(rope_dim >= 0 && rope_dim <= spec.head_dim_qk && std::fmod(rope_dim, 2.0) == 0,
        "variant scalar 'rope_dim' is {}, expected an even number of at most head_dim_qk = {}",
        rope_dim, spec.head_dim_qk);
  check(rope_dim > 0 || spec.head_dim_qk % 2 == 0,
        "head_dim_qk is {}, and a rotary embedding of all of it needs an even number",
        spec.head_dim_qk);
}

}  // namespace trencadis::codegen
