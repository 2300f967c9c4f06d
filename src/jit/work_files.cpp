#include "jit/work_files.h"

#include <fstream>
#include <string_view>
#include <system_error>

#include "base/check.h"

namespace trencadis::jit {
namespace {

namespace fs = std::filesystem;

void write_file(const fs::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!file) base::fail(ErrorKind::io, "cannot write {}", path.string());
}

}  // namespace

void write_sources(const KernelSource& source, const fs::path& directory, const char* source_file) {
  for (const EmbeddedFile& header : source.headers) {
    const fs::path path = directory / kHeaderDirectory / header.path;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (error) {
      base::fail(ErrorKind::io, "cannot create {}: {}", path.parent_path().string(),
                 error.message());
    }
    write_file(path, header.text);
  }
  write_file(directory / source_file, source.text);
}

}  // namespace trencadis::jit
