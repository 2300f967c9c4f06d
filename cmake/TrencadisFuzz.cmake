# trencadis_add_fuzzer(NAME <name> SOURCES ... CORPUS <dir> [RUNS <n>] [LIBS ...])
#
# SOURCES define LLVMFuzzerTestOneInput. With TRENCADIS_FUZZ (clang) this is a libFuzzer binary;
# otherwise a small driver replays the corpus and runs a bounded number of deterministic mutations
# of it. ctest runs either for RUNS inputs, by the same command line.
function(trencadis_add_fuzzer)
  cmake_parse_arguments(arg "" "NAME;CORPUS;RUNS" "SOURCES;LIBS" ${ARGN})
  if(NOT arg_RUNS)
    set(arg_RUNS 10000)
  endif()
  get_filename_component(corpus ${arg_CORPUS} ABSOLUTE)
  add_executable(${arg_NAME} ${arg_SOURCES})
  set_target_properties(${arg_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin/fuzz)
  trencadis_configure_test(${arg_NAME})
  target_link_libraries(${arg_NAME} PRIVATE ${arg_LIBS})
  if(TRENCADIS_FUZZ)
    target_link_options(${arg_NAME} PRIVATE -fsanitize=fuzzer)
  else()
    target_sources(${arg_NAME} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/fuzz/standalone_main.cpp)
  endif()
  if(NOT TARGET fuzzers)
    add_custom_target(fuzzers)
  endif()
  add_dependencies(fuzzers ${arg_NAME})
  # libFuzzer writes the inputs that it finds into the first directory, which must not be the
  # checked-in corpus.
  set(found ${PROJECT_BINARY_DIR}/fuzz/${arg_NAME})
  file(MAKE_DIRECTORY ${found})
  add_test(
    NAME ${arg_NAME}
    COMMAND ${arg_NAME} -runs=${arg_RUNS} -seed=1 -max_len=4096 ${found} ${corpus}
    WORKING_DIRECTORY ${found})
  set_tests_properties(${arg_NAME} PROPERTIES LABELS fuzz TIMEOUT 300)
endfunction()
