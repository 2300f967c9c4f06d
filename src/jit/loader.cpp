#include "jit/loader.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/check.h"

namespace trencadis::jit {
namespace {

std::string linker_text() {
  const char* text = dlerror();
  return text == nullptr ? "the dynamic linker gives no reason" : text;
}

Descriptor file_in_memory(std::span<const std::byte> bytes, const std::string& name) {
  Descriptor file(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const auto fail = [&] {
    base::fail(ErrorKind::io, "cannot hold kernel {} ({} bytes) in memory: {}", name, bytes.size(),
               std::generic_category().message(errno));
  };
  if (!file.valid()) fail();
  while (!bytes.empty()) {
    const ssize_t written = write(file.number(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail();
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  // From here on nobody, not even this process, can change the code.
  fcntl(file.number(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
  return file;
}

}  // namespace

Module Module::load(std::span<const std::byte> shared_object, const std::string& name) {
  Descriptor file = file_in_memory(shared_object, name);
  const std::string path = fmt::format("/proc/self/fd/{}", file.number());
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    base::fail(ErrorKind::io, "cannot load kernel {}: {}", name, linker_text());
  }
  return Module(handle, std::move(file), path, name);
}

Module::Module(void* handle, Descriptor file, std::string path, std::string name)
    : handle_(handle), file_(std::move(file)), path_(std::move(path)), name_(std::move(name)) {}

Module::Module(Module&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)),
      file_(std::move(other.file_)),
      path_(std::move(other.path_)),
      name_(std::move(other.name_)) {}

Module::~Module() {
  if (handle_ == nullptr) return;
  dlclose(handle_);
  // The linker may keep a module (one that defines unique symbols, for example). Were its
  // descriptor closed, the next module would get the same number and path, and dlopen would return
  // this one.
  if (void* kept = dlopen(path_.c_str(), RTLD_NOW | RTLD_NOLOAD); kept != nullptr) {
    dlclose(kept);
    file_.release();
  }
}

const void* Module::symbol(const std::string& symbol_name) const {
  dlerror();
  const void* address = dlsym(handle_, symbol_name.c_str());
  if (address == nullptr) {
    base::fail(ErrorKind::io, "kernel {} does not export '{}': {}", name_, symbol_name,
               linker_text());
  }
  return address;
}

}  // namespace trencadis::jit
