// Libraries that are opened at run time, so that nothing needs them to load: libcuda, libnvrtc.
#pragma once

#include <optional>
#include <string>

namespace trencadis::base {

/// A shared library of the system. It stays loaded for the life of the process: those opened here
/// bring threads and runtimes of their own, which do not survive being unloaded.
class DynamicLibrary {
 public:
  /// A path, or a name that the dynamic linker looks for. nullopt where it cannot be loaded;
  /// `reason` then holds the linker's words.
  static std::optional<DynamicLibrary> open(const std::string& name, std::string* reason = nullptr);

  /// Where it was found.
  const std::string& path() const noexcept { return path_; }

  /// Null where the library has no such function.
  template <class Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(symbol(name));
  }

 private:
  DynamicLibrary(void* handle, std::string path) : handle_(handle), path_(std::move(path)) {}

  void* symbol(const char* name) const;

  void* handle_;
  std::string path_;
};

}  // namespace trencadis::base
