#include "jit/embedded.h"

#include <vector>

namespace trencadis::jit {
namespace {

std::vector<EmbeddedFile> headers_without(std::string_view room) {
  std::vector<EmbeddedFile> headers;
  for (const EmbeddedFile& header : embedded_kernel_headers()) {
    if (!header.path.starts_with(room)) headers.push_back(header);
  }
  return headers;
}

}  // namespace

std::span<const EmbeddedFile> host_kernel_headers() {
  static const std::vector<EmbeddedFile> headers = headers_without("cuda/");
  return headers;
}

std::span<const EmbeddedFile> device_kernel_headers() {
  static const std::vector<EmbeddedFile> headers = headers_without("cpu/");
  return headers;
}

}  // namespace trencadis::jit
