# Where the shipped data lies, for benchmarks that are run from anywhere.
file(
  CONFIGURE
  OUTPUT ${PROJECT_BINARY_DIR}/generated/benchmarks/shipped_data.h
  CONTENT "#pragma once
inline constexpr const char* kShippedTrace = \"@PROJECT_SOURCE_DIR@/data/azure_conv_2023.csv\";
"
  @ONLY)

# trencadis_add_benchmark(NAME <name> SOURCES ... [LIBS ...])
#
# A google-benchmark binary, build/bin/benchmarks/<name>. It sees the public API only and ctest does
# not run it: the target `bench` runs every benchmark and writes build/bench/<name>.json.
function(trencadis_add_benchmark)
  cmake_parse_arguments(arg "" "NAME" "SOURCES;LIBS" ${ARGN})
  add_executable(${arg_NAME} ${arg_SOURCES})
  set_target_properties(${arg_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin/benchmarks)
  target_link_libraries(${arg_NAME} PRIVATE trencadis::trencadis ${arg_LIBS} benchmark::benchmark
                                            benchmark::benchmark_main)
  target_include_directories(${arg_NAME} PRIVATE ${PROJECT_BINARY_DIR}/generated/benchmarks)
  trencadis_warnings(${arg_NAME})
  set_property(GLOBAL APPEND PROPERTY TRENCADIS_BENCHMARKS ${arg_NAME})
endfunction()

# Called once, after the last benchmark.
function(trencadis_add_bench_target)
  get_property(names GLOBAL PROPERTY TRENCADIS_BENCHMARKS)
  set(output ${PROJECT_BINARY_DIR}/bench)
  set(commands COMMAND ${CMAKE_COMMAND} -E make_directory ${output})
  foreach(name ${names})
    list(APPEND commands COMMAND ${name} --benchmark_out=${output}/${name}.json --benchmark_out_format=json)
  endforeach()
  add_custom_target(bench ${commands} DEPENDS ${names} USES_TERMINAL VERBATIM)
endfunction()
