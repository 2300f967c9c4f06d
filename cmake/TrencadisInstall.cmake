# The installed package: headers, the library, and `find_package(trencadis)`.

include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/trencadis)

install(DIRECTORY include/trencadis DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(
  TARGETS trencadis
  EXPORT trencadis-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT trencadis-targets NAMESPACE trencadis:: DESTINATION ${package_dir})

configure_package_config_file(cmake/trencadis-config.cmake.in ${PROJECT_BINARY_DIR}/trencadis-config.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/trencadis-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/trencadis-config.cmake ${PROJECT_BINARY_DIR}/trencadis-config-version.cmake
              cmake/FindDLPack.cmake cmake/FindHighway.cmake DESTINATION ${package_dir})
