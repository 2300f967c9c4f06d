#pragma once

#include <gmock/gmock.h>
#include <trencadis/error.h>

#include <functional>
#include <string>

namespace trencadis::testing {

// The call throws an Error of this kind whose message holds every one of the texts.
inline void expect_error(ErrorKind kind, std::initializer_list<std::string> texts,
                         const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "no error; expected one of kind \"" << to_string(kind) << "\" with \""
                  << *texts.begin() << "\"";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    for (const std::string& text : texts) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(text));
    }
  }
}

}  // namespace trencadis::testing
