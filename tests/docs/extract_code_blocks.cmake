# Run with -P by the build: writes the ```cpp blocks of the Markdown file INPUT to OUTPUT, each at the
# line that it has there, so that a compiler's message points into the page.

file(READ ${INPUT} text)
string(REPLACE ";" "\;" text "${text}")
string(REPLACE "[" "<bracket>" text "${text}")  # CMake lists treat brackets as quotes
string(REPLACE "]" "</bracket>" text "${text}")
string(REPLACE "\n" ";" lines "${text}")

set(number 0)
set(inside FALSE)
set(code "")
foreach(line IN LISTS lines)
  math(EXPR number "${number} + 1")
  if(line STREQUAL "```cpp")
    set(inside TRUE)
    math(EXPR first "${number} + 1")
    string(APPEND code "#line ${first} \"${INPUT}\"\n")
  elseif(line STREQUAL "```")
    set(inside FALSE)
  elseif(inside)
    string(APPEND code "${line}\n")
  endif()
endforeach()
string(REPLACE "</bracket>" "]" code "${code}")
string(REPLACE "<bracket>" "[" code "${code}")
file(WRITE ${OUTPUT} "${code}")
