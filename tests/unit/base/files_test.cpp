#include "base/files.h"

#include <gmock/gmock.h>
#include <trencadis/error.h>
#include <unistd.h>

#include <filesystem>

namespace trencadis::base {
namespace {

namespace fs = std::filesystem;

class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "trencadis-files-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(directory_), fs::directory_iterator()));
  }

  fs::path directory_;
};

TEST_F(Files, WhatIsWrittenIsRead) {
  const std::string bytes("a\0b\n", 4);
  write_file_atomic(directory_ / "x", bytes);
  EXPECT_EQ(read_file(directory_ / "x"), bytes);
  write_file_atomic(directory_ / "x", "");
  EXPECT_EQ(read_file(directory_ / "x"), "");
  EXPECT_EQ(entries(), 1u) << "no temporary file is left";
}

TEST_F(Files, AMissingFileIsAnIoErrorWithItsPath) {
  try {
    read_file(directory_ / "absent");
    FAIL() << "a missing file was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::io);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("absent"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("No such file"));
  }
}

TEST_F(Files, AFailedWriteLeavesNothingBehind) {
  fs::create_directory(directory_ / "taken");
  fs::create_directory(directory_ / "taken" / "inside");
  EXPECT_THROW(write_file_atomic(directory_ / "taken", "text"), Error);
  EXPECT_THROW(write_file_atomic(directory_ / "absent" / "x", "text"), Error);
  EXPECT_EQ(entries(), 1u);
}

}  // namespace
}  // namespace trencadis::base
