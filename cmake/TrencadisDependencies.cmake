# Everything comes from the distribution (tools/setup.sh lists the packages). The library's own needs
# come first; an installed package asks its users for no more than those.

find_package(Threads REQUIRED)
find_package(DLPack REQUIRED MODULE)
find_package(Highway REQUIRED MODULE)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)

# Header only, and only in our own sources: users of the package never see these.
add_library(trencadis_private_headers INTERFACE)
target_link_libraries(trencadis_private_headers INTERFACE nlohmann_json::nlohmann_json)
target_include_directories(trencadis_private_headers SYSTEM INTERFACE ${XXHASH_INCLUDE_DIR})
target_compile_definitions(trencadis_private_headers INTERFACE XXH_INLINE_ALL)

if(TRENCADIS_BUILD_APPS)
  find_package(CLI11 REQUIRED)
  find_package(spdlog REQUIRED)
  find_package(pugixml REQUIRED)
  find_path(FCCP_INCLUDE_DIR libfccp/csv.h REQUIRED)
  add_library(trencadis_csv INTERFACE)
  target_include_directories(trencadis_csv SYSTEM INTERFACE ${FCCP_INCLUDE_DIR})
  target_link_libraries(trencadis_csv INTERFACE Threads::Threads)
endif()
if(TRENCADIS_BUILD_TESTS)
  find_package(GTest REQUIRED)
  find_package(rapidcheck REQUIRED)
endif()
if(TRENCADIS_BUILD_BENCHMARKS)
  find_package(benchmark REQUIRED)
endif()
