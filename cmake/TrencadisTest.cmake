# The functions that the tests are declared with; cmake/README.md shows them in use.

include(GoogleTest)

# What a test may see beyond the public API: src/, kernels/, and tests/ for "support/...".
set(TRENCADIS_TEST_INCLUDES ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/kernels ${PROJECT_SOURCE_DIR}/tests)

# Where the tree and the build are, for "support/paths.h". In one file of its own: as a definition on
# every command line it would make each clone of the tree compile every test anew.
file(
  CONFIGURE
  OUTPUT ${PROJECT_BINARY_DIR}/generated/test_paths.cpp
  CONTENT
    "#include \"support/paths.h\"

namespace trencadis::testing {

std::string source_dir() { return \"@PROJECT_SOURCE_DIR@\"; }
std::string binary_dir() { return \"@PROJECT_BINARY_DIR@\"; }

}  // namespace trencadis::testing
"
  @ONLY)
add_library(trencadis_test_paths STATIC ${PROJECT_BINARY_DIR}/generated/test_paths.cpp)
target_include_directories(trencadis_test_paths PRIVATE ${PROJECT_SOURCE_DIR}/tests)

function(trencadis_configure_test target)
  target_include_directories(${target} PRIVATE ${TRENCADIS_TEST_INCLUDES})
  # Tests may use what the library's private headers use.
  target_link_libraries(${target} PRIVATE trencadis::trencadis trencadis_private_headers trencadis_test_paths fmt::fmt
                                          Threads::Threads
                                          ${CMAKE_DL_LIBS})
  trencadis_warnings(${target} RELAXED)
endfunction()

# The program of trencadis_add_test and its like: one GoogleTest binary that ctest does not know yet.
function(trencadis_add_test_program target sources libraries)
  add_executable(${target} ${sources})
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin/tests)
  trencadis_configure_test(${target})
  target_link_libraries(${target} PRIVATE ${libraries} GTest::gmock GTest::gtest GTest::gtest_main)
endfunction()

# trencadis_add_test(NAME <name> SOURCES ... [LABELS ...] [LIBS ...] [TIMEOUT <seconds>] [WHOLE])
#
# One GoogleTest binary. ctest lists each of its cases, so that a skipped one is seen to be skipped;
# WHOLE makes one entry of the binary, for cases that share an expensive set-up.
function(trencadis_add_test)
  cmake_parse_arguments(arg "WHOLE" "NAME;TIMEOUT" "SOURCES;LABELS;LIBS" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_NAME OR NOT arg_SOURCES)
    message(FATAL_ERROR "trencadis_add_test needs NAME and SOURCES; it does not know: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  trencadis_add_test_program(${arg_NAME} "${arg_SOURCES}" "${arg_LIBS}")

  # Kernels that tests compile stay in the build directory.
  set(environment TRENCADIS_CACHE_DIR=${PROJECT_BINARY_DIR}/test-cache)
  if(arg_WHOLE)
    add_test(NAME ${arg_NAME} COMMAND ${arg_NAME})
    set_tests_properties(${arg_NAME} PROPERTIES TIMEOUT ${arg_TIMEOUT} ENVIRONMENT "${environment}"
                                                LABELS "${arg_LABELS}")
  else()
    gtest_discover_tests(
      ${arg_NAME}
      TEST_PREFIX ${arg_NAME}.
      TEST_LIST discovered_tests
      NO_PRETTY_VALUES
      DISCOVERY_MODE PRE_TEST
      DISCOVERY_TIMEOUT 60)
    # gtest_discover_tests cannot pass a property that is a list, so ctest sets them after discovery.
    set(script ${CMAKE_CURRENT_BINARY_DIR}/${arg_NAME}_properties.cmake)
    file(
      CONFIGURE
      OUTPUT ${script}
      CONTENT
        "if(discovered_tests)
  set_tests_properties(\${discovered_tests} PROPERTIES TIMEOUT \"@arg_TIMEOUT@\" ENVIRONMENT \"@environment@\"
                                                    LABELS \"@arg_LABELS@\")
endif()
unset(discovered_tests)
"
      @ONLY)
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${script})
  endif()
endfunction()

# trencadis_add_gpu_run(<test> [WITHOUT <gtest pattern>] [SHARDS <n>])
#
# A second run of a test that trencadis_add_test declared, with its problems on the first CUDA device
# (support/backend_under_test.h): the ctest entry gpu.<test>, skipped where there is none. WITHOUT names the
# cases that are about the host. SHARDS makes n entries of it, gpu.<test>.1 to n, each with its share of the
# cases, for those that compile many kernels.
function(trencadis_add_gpu_run test)
  cmake_parse_arguments(arg "" "WITHOUT;SHARDS" "" ${ARGN})
  set(filter *)
  if(arg_WITHOUT)
    set(filter -${arg_WITHOUT})
  endif()
  if(NOT arg_SHARDS)
    set(arg_SHARDS 1)
  endif()
  foreach(shard RANGE 1 ${arg_SHARDS})
    string(REGEX REPLACE "^gpu_" "" name ${test})
    string(PREPEND name gpu.)
    set(environment TRENCADIS_TEST_BACKEND=cuda TRENCADIS_CACHE_DIR=${PROJECT_BINARY_DIR}/test-cache)
    if(arg_SHARDS GREATER 1)
      string(APPEND name .${shard})
      math(EXPR index "${shard} - 1")
      list(APPEND environment GTEST_TOTAL_SHARDS=${arg_SHARDS} GTEST_SHARD_INDEX=${index})
    endif()
    add_test(NAME ${name} COMMAND ${test} --gtest_filter=${filter})
    set_tests_properties(${name} PROPERTIES TIMEOUT 600 LABELS gpu SKIP_RETURN_CODE 77 ENVIRONMENT "${environment}")
  endforeach()
endfunction()

# trencadis_add_gpu_test(NAME <name> SOURCES ... [LIBS ...] [SHARDS <n>])
#
# One GoogleTest binary that runs on the first CUDA device alone, as trencadis_add_gpu_run: gpu_grid_test is
# gpu.grid_test for ctest.
function(trencadis_add_gpu_test)
  cmake_parse_arguments(arg "" "NAME;SHARDS" "SOURCES;LIBS" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_NAME OR NOT arg_SOURCES)
    message(FATAL_ERROR "trencadis_add_gpu_test needs NAME and SOURCES; it does not know: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  trencadis_add_test_program(${arg_NAME} "${arg_SOURCES}" "trencadis_test_support;${arg_LIBS}")
  trencadis_add_gpu_run(${arg_NAME} SHARDS ${arg_SHARDS})
endfunction()

# trencadis_add_compile_fail_test(NAME <name> SOURCE <file> EXPECT <regex> [DEFINES ...])
#
# The file must not compile, and the compiler's output must match the regular expression.
function(trencadis_add_compile_fail_test)
  cmake_parse_arguments(arg "" "NAME;SOURCE;EXPECT" "DEFINES" ${ARGN})
  get_filename_component(source ${arg_SOURCE} ABSOLUTE)
  set(flags -std=c++20 -fsyntax-only -fdiagnostics-color=never)
  foreach(dir ${PROJECT_SOURCE_DIR}/include ${TRENCADIS_TEST_INCLUDES} ${DLPack_INCLUDE_DIR})
    if(NOT dir IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
      list(APPEND flags -I${dir})
    endif()
  endforeach()
  foreach(definition ${arg_DEFINES})
    list(APPEND flags -D${definition})
  endforeach()
  list(JOIN flags "\\;" flags)
  add_test(NAME ${arg_NAME}
           COMMAND ${CMAKE_COMMAND} -DCOMPILER=${CMAKE_CXX_COMPILER} -DFLAGS=${flags} -DSOURCE=${source}
                   -DEXPECT=${arg_EXPECT} -P ${PROJECT_SOURCE_DIR}/cmake/compile_fail.cmake)
  set_tests_properties(${arg_NAME} PROPERTIES LABELS compile_fail TIMEOUT 120)
endfunction()
