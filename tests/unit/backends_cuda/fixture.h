// The fake driver in place of the machine's own, and variables for the length of a scope.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <trencadis/error.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "backends/cuda/driver.h"
#include "support/fake_cuda/fake_cuda.h"

namespace trencadis::cuda {

class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;
  ~ScopedVariable() {
    if (before_)
      setenv(name_, before_->c_str(), 1);
    else
      unsetenv(name_);
  }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

class CudaTest : public ::testing::Test {
 protected:
  ScopedVariable libcuda_{"TRENCADIS_LIBCUDA", testing::FakeCuda::path()};
  testing::FakeCuda fake_;
  std::unique_ptr<const Driver> driver_ = Driver::open();
};

inline std::string error_text(ErrorKind kind, const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(to_string(error.kind()), to_string(kind)) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << "one line";
    return error.what();
  }
  ADD_FAILURE() << "no error, expected: " << to_string(kind);
  return "";
}

}  // namespace trencadis::cuda
