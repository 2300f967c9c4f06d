#include "base/dynamic_library.h"

#include <dlfcn.h>
#include <link.h>

namespace trencadis::base {

std::optional<DynamicLibrary> DynamicLibrary::open(const std::string& name, std::string* reason) {
  void* handle = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* text = dlerror();
    if (reason != nullptr) *reason = text == nullptr ? name + " cannot be loaded" : text;
    return std::nullopt;
  }
  link_map* map = nullptr;
  const bool known = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0;
  return DynamicLibrary(handle, known ? map->l_name : name);  // never closed
}

void* DynamicLibrary::symbol(const char* name) const {
  return dlsym(handle_, name);
}

}  // namespace trencadis::base
