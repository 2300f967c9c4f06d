#include "output/atomic_file.h"

#include <gtest/gtest.h>
#include <trencadis/error.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace trencadis::app {
namespace {

namespace fs = std::filesystem;

class AtomicFileTest : public ::testing::Test {
 protected:
  AtomicFileTest()
      : directory_(fs::path(::testing::TempDir()) /
                   ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  ~AtomicFileTest() override { fs::remove_all(directory_); }

  std::string content(const fs::path& path) const {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::ptrdiff_t entries() const {
    return std::distance(fs::directory_iterator(directory_), fs::directory_iterator());
  }

  fs::path directory_;
};

TEST_F(AtomicFileTest, AppearsAtCommitAndNotBefore) {
  const fs::path path = directory_ / "made" / "report.json";
  AtomicFile file(path);
  EXPECT_FALSE(fs::exists(path));
  file.commit("all of it");
  EXPECT_EQ(content(path), "all of it");
}

TEST_F(AtomicFileTest, LeavesNothingWithoutCommit) {
  { const AtomicFile file(directory_ / "report.json"); }
  EXPECT_EQ(entries(), 0);
}

TEST_F(AtomicFileTest, KeepsTheOldFileWithoutCommit) {
  const fs::path path = directory_ / "report.json";
  std::ofstream(path) << "old";
  { const AtomicFile file(path); }
  EXPECT_EQ(content(path), "old");
  AtomicFile(path).commit("new");
  EXPECT_EQ(content(path), "new");
  EXPECT_EQ(entries(), 1);
}

TEST_F(AtomicFileTest, WhatCannotBeWrittenIsKnownAtOnce) {
  EXPECT_THROW(AtomicFile(directory_.string()), Error);
  std::ofstream(directory_ / "file") << "not a directory";
  EXPECT_THROW(AtomicFile(directory_ / "file" / "report.json"), Error);
}

}  // namespace
}  // namespace trencadis::app
