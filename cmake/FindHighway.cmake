# Finds Highway (portable vectors) and defines Highway::Highway. A module of our own, since not every
# distribution that we build on ships a CMake package with it. Installed with the package: a program
# that links the static library links Highway too.

find_path(Highway_INCLUDE_DIR hwy/highway.h)
find_library(Highway_LIBRARY hwy)
mark_as_advanced(Highway_INCLUDE_DIR Highway_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Highway REQUIRED_VARS Highway_LIBRARY Highway_INCLUDE_DIR)

if(Highway_FOUND AND NOT TARGET Highway::Highway)
  add_library(Highway::Highway UNKNOWN IMPORTED)
  set_target_properties(
    Highway::Highway
    PROPERTIES IMPORTED_LOCATION "${Highway_LIBRARY}"
               INTERFACE_COMPILE_DEFINITIONS HWY_SHARED_DEFINE
               INTERFACE_INCLUDE_DIRECTORIES "${Highway_INCLUDE_DIR}")
endif()
