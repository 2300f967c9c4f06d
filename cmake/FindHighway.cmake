# Finds Highway (portable vectors) and defines Highway::Highway. A module of our own, since not every
# distribution that we build on ships a CMake package with it. Installed with the package: a program
# that links the static library links Highway too.

find_path(Highway_INCLUDE_DIR hwy/highway.h)
find_library(Highway_LIBRARY hwy)
mark_as_advanced(Highway_INCLUDE_DIR Highway_LIBRARY)

# Releases differ in which of these headers states the version.
foreach(header highway.h base.h)
  if(EXISTS "${Highway_INCLUDE_DIR}/hwy/${header}")
    file(STRINGS "${Highway_INCLUDE_DIR}/hwy/${header}" lines REGEX "#define HWY_(MAJOR|MINOR|PATCH) +[0-9]+")
    if(lines)
      string(REGEX REPLACE "[^0-9;]" "" lines "${lines}")
      string(REPLACE ";" "." Highway_VERSION "${lines}")
    endif()
  endif()
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  Highway
  REQUIRED_VARS Highway_LIBRARY Highway_INCLUDE_DIR
  VERSION_VAR Highway_VERSION)

if(Highway_FOUND AND NOT TARGET Highway::Highway)
  add_library(Highway::Highway UNKNOWN IMPORTED)
  set_target_properties(
    Highway::Highway
    PROPERTIES IMPORTED_LOCATION "${Highway_LIBRARY}"
               INTERFACE_COMPILE_DEFINITIONS HWY_SHARED_DEFINE
               INTERFACE_INCLUDE_DIRECTORIES "${Highway_INCLUDE_DIR}")
endif()
