# Finds the DLPack header and defines DLPack::DLPack. Installed with the package, whose public
# headers include <dlpack/dlpack.h>.

find_path(DLPack_INCLUDE_DIR dlpack/dlpack.h)
mark_as_advanced(DLPack_INCLUDE_DIR)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(DLPack REQUIRED_VARS DLPack_INCLUDE_DIR)

if(DLPack_FOUND AND NOT TARGET DLPack::DLPack)
  add_library(DLPack::DLPack INTERFACE IMPORTED)
  set_target_properties(DLPack::DLPack PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${DLPack_INCLUDE_DIR}")
endif()
