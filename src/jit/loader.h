// A shared object in memory, loaded from bytes that were verified and not from a file that somebody
// may change in between.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "jit/descriptor.h"

namespace trencadis::jit {

class Module {
 public:
  /// Loads a shared object. `name` is for messages and debuggers. Throws Error(io) with the
  /// dynamic linker's words.
  static Module load(std::span<const std::byte> shared_object, const std::string& name);

  Module(Module&& other) noexcept;
  Module& operator=(Module&&) = delete;
  /// Unloads the code: no function or object of the module may be in use.
  ~Module();

  /// The address of an exported C symbol. Throws Error(io) that names kernel and symbol.
  const void* symbol(const std::string& symbol_name) const;

  /// The same as a pointer to an object: *module.object<Ops>("ops").
  template <class T>
  const T* object(const std::string& symbol_name) const {
    return static_cast<const T*>(symbol(symbol_name));
  }

  const std::string& name() const noexcept { return name_; }

 private:
  Module(void* handle, Descriptor file, std::string path, std::string name);

  void* handle_ = nullptr;
  Descriptor file_;   // open while loaded: the linker knows the module by the path of this file
  std::string path_;  // /proc/self/fd/<file_>
  std::string name_;
};

}  // namespace trencadis::jit
