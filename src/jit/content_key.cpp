#include "jit/content_key.h"

#include "base/hash.h"

namespace trencadis::jit {
namespace {

// Changes when what is hashed, or how an artifact is stored and loaded, changes.
constexpr std::string_view kScheme = "trencadis kernel 1";

}  // namespace

std::string source_key(const KernelSource& source) {
  base::FieldHasher hasher;
  hasher.add(kScheme).add(to_string(source.language)).add(std::to_string(source.abi));
  hasher.add(source.text);
  for (const EmbeddedFile& header : source.headers) hasher.add(header.path).add(header.text);
  return hasher.hex();
}

ContentKey content_key(const KernelSource& source, const std::string& architecture,
                       const std::string& compiler_identity) {
  ContentKey result;
  result.source_key = source_key(source);
  result.key =
      base::FieldHasher().add(result.source_key).add(architecture).add(compiler_identity).hex();
  return result;
}

}  // namespace trencadis::jit
