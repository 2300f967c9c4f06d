#include "codegen/source_text.h"

#include <trencadis/spec_text.h>

#include "base/check.h"

namespace trencadis::codegen {
namespace {

/// One word of a shell's command line.
std::string shell_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'')
      quoted += "'\\''";
    else
      quoted += c;
  }
  return quoted + "'";
}

}  // namespace

std::string_view element_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "float";
    case DType::f64:
      return "double";
    case DType::f16:
      return "trencadis::variant::Float16";
    case DType::bf16:
      return "trencadis::variant::BFloat16";
    case DType::i32:
      return "std::int32_t";
    case DType::i64:
      return "std::int64_t";
    case DType::u8:
      return "std::uint8_t";
  }
  base::fail(ErrorKind::internal, "dtype {} has no element type", static_cast<int>(dtype));
}

void write_params(SourceText& out, const Variant& variant, const ParamsStyle& style) {
  out.line("struct Params {{");
  for (const ExtraTensor& tensor : variant.tensors)
    out.line("  const {}*{} {};", element_type(tensor.dtype), style.pointer_suffix, tensor.name);
  for (const ExtraScalar& scalar : variant.scalars) out.line("  float {};", scalar.name);
  out.line("");
  out.line(
      "  {}static Params load([[maybe_unused]] const trencadis::contract::VariantArgs& args) {{",
      style.function_prefix);
  out.line("    Params p;");
  for (std::size_t i = 0; i < variant.tensors.size(); ++i)
    out.line("    p.{} = static_cast<const {}*>(args.tensors[{}]);", variant.tensors[i].name,
             element_type(variant.tensors[i].dtype), i);
  for (std::size_t i = 0; i < variant.scalars.size(); ++i)
    out.line("    p.{} = static_cast<float>(args.scalars[{}]);", variant.scalars[i].name, i);
  out.line("    return p;");
  out.line("  }}");
  out.line("}};");
}

void write_variant_source(SourceText& out, const Variant& variant) {
  out.line("using namespace trencadis::variant;");
  out.line("");
  if (!variant.source.empty()) out.foreign("variant", variant.source);
  out.line("");
}

std::string kernel_name(std::string prefix, const Variant& variant) {
  std::string name = std::move(prefix) + "_";
  for (char c : variant.functor) {
    const bool word = ('0' <= c && c <= '9') || ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z');
    if (word)
      name += c;
    else if (name.back() != '_')
      name += '_';
  }
  while (name.back() == '_') name.pop_back();
  constexpr std::size_t kMaxName = 96;  // it becomes part of file names
  return name.substr(0, kMaxName);
}

std::string prebuild_command(const AttentionSpec& spec, std::string_view arch) {
  return fmt::format("trencadis compile --arch {} --spec {}", arch, shell_quoted(to_json(spec)));
}

}  // namespace trencadis::codegen
