# Run with -P by ctest: SOURCE must not compile, and what the compiler says must match EXPECT.

execute_process(
  COMMAND ${COMPILER} ${FLAGS} ${SOURCE}
  RESULT_VARIABLE status
  OUTPUT_VARIABLE output
  ERROR_VARIABLE output)
if(status EQUAL 0)
  message(FATAL_ERROR "${SOURCE} compiled, and was expected to fail with: ${EXPECT}")
endif()
if(NOT output MATCHES "${EXPECT}")
  message(FATAL_ERROR "${SOURCE} failed to compile for another reason than expected.\n"
                      "expected: ${EXPECT}\nthe compiler's output:\n${output}")
endif()
