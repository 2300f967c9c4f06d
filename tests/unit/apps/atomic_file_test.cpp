#include "output/atomic_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <trencadis/error.h>
#include <unistd.h>

#include <algorithm>
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
  EXPECT_THROW(AtomicFile((directory_ / "").string()), Error);
}

TEST_F(AtomicFileTest, NothingIsOnDiskBeforeCommit) {
  const AtomicFile file(directory_ / "report.json");
  EXPECT_EQ(entries(), 0);
}

TEST_F(AtomicFileTest, ALinkStaysAndItsTargetIsReplaced) {
  fs::create_directories(directory_ / "kept");
  for (const char* name : {"there.json", "not_yet.json"}) {
    const fs::path link = directory_ / name;
    fs::create_symlink(fs::path("kept") / name, link);
    if (link.filename() == "there.json") std::ofstream(link) << "old";
    AtomicFile(link).commit("new");
    EXPECT_TRUE(fs::is_symlink(link)) << link;
    EXPECT_EQ(content(directory_ / "kept" / name), "new");
  }
}

TEST_F(AtomicFileTest, ADeviceIsWrittenThrough) {
  AtomicFile("/dev/null").commit("gone");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  AtomicFile full("/dev/full");
  EXPECT_THROW(full.commit("no room"), Error);
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST_F(AtomicFileTest, AFifoIsWrittenThrough) {
  const fs::path path = directory_ / "fifo";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  AtomicFile(path).commit("through");
  std::string bytes(16, '\0');
  bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(::read(reader, bytes.data(), 16), 0)));
  ::close(reader);
  EXPECT_EQ(bytes, "through");
  EXPECT_TRUE(fs::is_fifo(path));
}

TEST_F(AtomicFileTest, TwoOutputsAreTwoFiles) {
  const std::string path = directory_ / "report";
  require_two_files("--json", path, "--svg", directory_ / "other");
  require_two_files("--json", "", "--svg", "");
  fs::create_symlink("report", directory_ / "link");
  for (const fs::path& same : {fs::path(path), directory_ / "." / "report", directory_ / "link"})
    EXPECT_THROW(require_two_files("--json", path, "--svg", same), Error) << same;
}

}  // namespace
}  // namespace trencadis::app
