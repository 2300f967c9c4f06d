# Run with -P by ctest: installs the build into an empty prefix, then configures, builds and runs a
# program that knows nothing of the source tree.

file(REMOVE_RECURSE ${WORK})
set(prefix ${WORK}/prefix)

function(run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${what} failed (${status}):\n${output}")
  endif()
  message(STATUS "${what}\n${output}")
endfunction()

set(flags "")
if(SANITIZE)
  set(flags "-DCMAKE_CXX_FLAGS=-fsanitize=${SANITIZE}")
endif()

run("install" ${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
run("configure" ${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/build -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${COMPILER}
    -DCMAKE_PREFIX_PATH=${prefix} ${flags})
run("build" ${CMAKE_COMMAND} --build ${WORK}/build)
run("run" ${CMAKE_COMMAND} -E env TRENCADIS_CACHE_DIR=${WORK}/cache ${WORK}/build/stranger)
