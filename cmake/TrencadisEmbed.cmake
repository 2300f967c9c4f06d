# trencadis_embed_headers(<target> ROOT <dir> ROOMS <dir>...)
#
# Compiles every .h file below the named directories of ROOT into the target as text, and with it
# the function that src/jit/embedded.h declares.
function(trencadis_embed_headers target)
  cmake_parse_arguments(arg "" "ROOT" "ROOMS" ${ARGN})
  set(patterns ${arg_ROOMS})
  list(TRANSFORM patterns PREPEND ${arg_ROOT}/)
  list(TRANSFORM patterns APPEND /*.h)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS LIST_DIRECTORIES false ${patterns})
  list(SORT headers)

  set(generated ${PROJECT_BINARY_DIR}/generated/embedded_headers.cpp)
  set(list_file ${PROJECT_BINARY_DIR}/generated/embedded_headers.txt)
  # The list is a file of its own, written only when it changes, so that a header that is added or
  # removed also makes the text again.
  list(JOIN headers "\n" lines)
  file(CONFIGURE OUTPUT ${list_file} CONTENT "${lines}\n" @ONLY)

  set(script ${PROJECT_SOURCE_DIR}/cmake/embed_headers.cmake)
  add_custom_command(
    OUTPUT ${generated}
    COMMAND ${CMAKE_COMMAND} -DROOT=${arg_ROOT} -DLIST=${list_file} -DOUTPUT=${generated} -P ${script}
    DEPENDS ${headers} ${list_file} ${script}
    COMMENT "Embedding the kernel headers"
    VERBATIM)
  target_sources(${target} PRIVATE ${generated})
endfunction()
