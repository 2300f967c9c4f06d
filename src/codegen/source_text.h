// What the generated texts of all architectures have in common.
#pragma once

#include <fmt/format.h>
#include <trencadis/attention_spec.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

namespace trencadis::codegen {

/// Text that knows its line, so that what follows a user's source can take its own name back.
class SourceText {
 public:
  template <class... Args>
  void line(fmt::format_string<Args...> text, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), text, std::forward<Args>(args)...);
    text_ += '\n';
  }

  /// A user's text under a name of its own: the compiler then says "variant:3: error: ...".
  void foreign(std::string_view name, std::string_view text) {
    line("#line 1 \"{}\"", name);
    text_ += text;
    if (!text.ends_with('\n')) text_ += '\n';
    const auto next = std::count(text_.begin(), text_.end(), '\n') + 2;
    line("#line {} \"generated\"", next);
  }

  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

/// The type of `*p.name` in a hook. 16-bit floats are structs that convert to float.
std::string_view element_type(DType dtype);

/// How `struct Params` differs between compilers.
struct ParamsStyle {
  std::string_view pointer_suffix;   // after the * of a tensor: " __restrict__"
  std::string_view function_prefix;  // before the function: "__device__ "
};

/// The struct that a variant's hooks read, with `load`, which fills it.
void write_params(SourceText& out, const Variant& variant, const ParamsStyle& style = {});

/// The user's text and the names of the stock functors, as every kernel has them.
void write_variant_source(SourceText& out, const Variant& variant);

/// What a compiled kernel is called in lists and messages: `prefix`, and the functor's words, as in
/// "cpu_variant_MyBias".
std::string kernel_name(std::string prefix, const Variant& variant);

/// The command that compiles the spec into the cache.
std::string prebuild_command(const AttentionSpec& spec, std::string_view arch);

}  // namespace trencadis::codegen
