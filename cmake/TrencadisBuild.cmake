# What every target of the project is built with.

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths count relative to the source tree, so that another clone of it finds the same objects.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
                                  ${CCACHE_PROGRAM})
endif()

set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET default)

if(TRENCADIS_SANITIZE)
  add_compile_options(-fsanitize=${TRENCADIS_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TRENCADIS_SANITIZE})
endif()
if(TRENCADIS_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "TRENCADIS_FUZZ needs clang, and the compiler is ${CMAKE_CXX_COMPILER_ID}. "
                        "Configure with the preset `fuzz`, or leave TRENCADIS_FUZZ off: the fuzz tests then "
                        "replay their corpus and a bounded number of mutations with any compiler.")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# Strict warnings are for the library, its apps and benchmarks; tests get the same without the
# conversion warnings, which there mostly fire on literals.
function(trencadis_warnings target)
  cmake_parse_arguments(arg "RELAXED" "" "" ${ARGN})
  # Options structs are filled by designated initialisers; the fields left out have defaults.
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wno-missing-field-initializers)
  # GCC 12 sees overlapping copies in std::string's own operator+ (its bug 105651).
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-restrict)
  endif()
  if(NOT arg_RELAXED)
    target_compile_options(${target} PRIVATE -Wconversion -Wno-sign-conversion)
  endif()
  if(TRENCADIS_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()

function(trencadis_tidy target)
  if(TRENCADIS_TIDY)
    find_program(CLANG_TIDY_PROGRAM NAMES clang-tidy-14 clang-tidy REQUIRED)
    set_target_properties(${target} PROPERTIES CXX_CLANG_TIDY "${CLANG_TIDY_PROGRAM};--quiet;--warnings-as-errors=*")
  endif()
endfunction()

# trencadis_add_app(NAME <command> SOURCES ... [LIBS ...])
#
# A command of apps/: build/bin/<command>, installed. It uses the public API only.
function(trencadis_add_app)
  cmake_parse_arguments(arg "" "NAME" "SOURCES;LIBS" ${ARGN})
  set(target ${arg_NAME}_app)  # the command and the library share the name `trencadis`
  add_executable(${target} ${arg_SOURCES})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${arg_NAME} RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE trencadis::trencadis ${arg_LIBS})
  trencadis_warnings(${target})
  trencadis_tidy(${target})
  install(TARGETS ${target} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

# trencadis_add_present_subdirectories(<dir>...)
#
# Adds each directory that has a CMakeLists.txt; of one that has none, adds the directories directly
# below that do. A CMakeLists.txt that appears later is noticed by the next build.
function(trencadis_add_present_subdirectories)
  foreach(dir ${ARGN})
    file(
      GLOB lists CONFIGURE_DEPENDS
      RELATIVE ${CMAKE_CURRENT_SOURCE_DIR}
      ${CMAKE_CURRENT_SOURCE_DIR}/${dir}/CMakeLists.txt)
    if(NOT lists)
      file(
        GLOB lists CONFIGURE_DEPENDS
        RELATIVE ${CMAKE_CURRENT_SOURCE_DIR}
        ${CMAKE_CURRENT_SOURCE_DIR}/${dir}/*/CMakeLists.txt)
    endif()
    foreach(list ${lists})
      get_filename_component(subdirectory ${list} DIRECTORY)
      add_subdirectory(${subdirectory})
    endforeach()
  endforeach()
endfunction()
