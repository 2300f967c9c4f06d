#include "jit/disk_cache.h"

#include <sys/file.h>

#include <csignal>

#include "fixture.h"
#include "jit/entry_format.h"

namespace trencadis::jit {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kKey(32, 'a');
const std::string kOtherKey(32, 'b');

Artifact artifact(std::size_t bytes = 5000) {
  Artifact result(bytes);
  for (std::size_t i = 0; i < bytes; ++i) result[i] = static_cast<std::byte>(i * 7 + i / 256);
  return result;
}

EntryInfo info_for(const std::string& key) {
  EntryInfo info;
  info.key = key;
  info.name = "a kernel";
  info.compiler = "g++ 12";
  info.architecture = "x86_64 avx2";
  info.source_key = "source";
  info.library = "0.1.0";
  return info;
}

class DiskCacheTest : public ::testing::Test {
 protected:
  void publish(const std::string& key) {
    disk_.publish(info_for(key), artifact(), disk_.make_work_directory(key));
  }

  TemporaryDirectory directory_;
  DiskCache disk_{(directory_ / "cache").string()};
};

TEST_F(DiskCacheTest, ReturnsWhatWasPublished) {
  EXPECT_FALSE(disk_.read(kKey).has_value());
  publish(kKey);
  const std::optional<Entry> entry = disk_.read(kKey);
  ASSERT_TRUE(entry.has_value());
  EXPECT_EQ(entry->info.problem, "");
  EXPECT_EQ(entry->artifact, artifact());
  EXPECT_EQ(entry->info.name, "a kernel");
  EXPECT_EQ(entry->info.library, "0.1.0");
  EXPECT_EQ(entry->info.bytes, static_cast<std::int64_t>(fs::file_size(disk_.entry_path(kKey))));
}

TEST_F(DiskCacheTest, LeavesNothingBesidesTheEntry) {
  publish(kKey);
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(disk_.directory())) {
    files += entry.is_regular_file() ? 1 : 0;
  }
  EXPECT_EQ(files, 1);
  EXPECT_TRUE(fs::is_empty(fs::path(disk_.directory()) / "work"));
}

// Every byte of the file matters: no bit may change, nothing may be missing or too much.
TEST_F(DiskCacheTest, J2_EveryDamageIsFound) {
  publish(kKey);
  const std::string whole = read_text(disk_.entry_path(kKey));
  const auto problem_of = [&](const std::string& bytes) {
    return decode_entry(bytes, kKey).info.problem;
  };
  ASSERT_EQ(problem_of(whole), "");
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    const Entry entry = decode_entry(damaged, kKey);
    ASSERT_NE(entry.info.problem, "") << "bit " << at % 8 << " of byte " << at;
    ASSERT_THAT(entry.artifact, IsEmpty());
  }
  for (std::size_t size = 0; size < whole.size(); ++size) {
    ASSERT_NE(problem_of(whole.substr(0, size)), "") << "cut to " << size;
  }
  EXPECT_NE(problem_of(whole + '\0'), "");
  EXPECT_NE(problem_of(std::string(10000, 'x')), "");
}

TEST_F(DiskCacheTest, J2_AnEntryUnderAnotherNameIsRefused) {
  publish(kKey);
  fs::rename(disk_.entry_path(kKey), disk_.entry_path(kOtherKey));
  EXPECT_THAT(disk_.read(kOtherKey)->info.problem, HasSubstr(kKey));
}

TEST_F(DiskCacheTest, ListReadsHeadersAndVerifyReadsAll) {
  publish(kOtherKey);
  publish(kKey);
  std::string bytes = read_text(disk_.entry_path(kKey));
  bytes.back() = static_cast<char>(bytes.back() + 1);
  write_text(disk_.entry_path(kKey), bytes);
  write_text(fs::path(disk_.directory()) / "a note.txt", "not an entry");

  const std::vector<EntryInfo> listed = disk_.list();
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(listed[0].key, kKey);
  EXPECT_EQ(listed[0].problem, "");
  EXPECT_EQ(listed[1].compiler, "g++ 12");
  const std::vector<EntryInfo> verified = disk_.verify();
  ASSERT_EQ(verified.size(), 2u);
  EXPECT_THAT(verified[0].problem, HasSubstr("checksum"));
  EXPECT_EQ(verified[1].problem, "");
}

TEST_F(DiskCacheTest, NoDirectoryIsAnEmptyCache) {
  EXPECT_THAT(disk_.list(), IsEmpty());
  EXPECT_THAT(disk_.verify(), IsEmpty());
  EXPECT_EQ(disk_.clear(), 0);
  EXPECT_FALSE(fs::exists(disk_.directory()));
}

TEST_F(DiskCacheTest, ALockKeepsOthersOutUntilItsProcessDies) {
  std::optional<KeyLock> lock(disk_.lock(kKey, 1.0));
  ASSERT_TRUE(lock->held());
  EXPECT_FALSE(disk_.lock(kKey, 0.05).held());
  EXPECT_TRUE(disk_.lock(kOtherKey, 0.0).held()) << "another key is free";
  lock.reset();
  EXPECT_TRUE(disk_.lock(kKey, 0.0).held());
  EXPECT_TRUE(fs::is_empty(fs::path(disk_.directory()) / "locks")) << "no lock file stays";

  const fs::path ready = directory_ / "ready";
  const pid_t child = start_process([&] {
    const KeyLock held = disk_.lock(kKey, 1.0);
    write_text(ready, "");
    pause();
    return 0;
  });
  while (!fs::exists(ready)) usleep(1000);
  EXPECT_FALSE(disk_.lock(kKey, 0.05).held());
  kill(child, SIGKILL);
  wait_for(child);
  EXPECT_TRUE(disk_.lock(kKey, 0.0).held());
}

TEST_F(DiskCacheTest, AKilledProcessLeavesNothingForLong) {
  const fs::path ready = directory_ / "ready";
  const pid_t child = start_process([&] {
    const WorkDirectory work = disk_.make_work_directory(kKey);
    write_text(fs::path(work.path()) / "half a kernel", "...");
    write_text(ready, work.path());
    pause();
    return 0;
  });
  while (read_text(ready).empty()) usleep(1000);
  const fs::path left = read_text(ready);
  disk_.make_work_directory(kOtherKey);
  EXPECT_TRUE(fs::exists(left)) << "a compilation under way is not disturbed";
  disk_.clear();
  EXPECT_TRUE(fs::exists(left)) << "nor by clear";
  kill(child, SIGKILL);
  wait_for(child);
  EXPECT_TRUE(fs::exists(left));
  disk_.make_work_directory(kOtherKey);
  EXPECT_FALSE(fs::exists(left));
}

TEST_F(DiskCacheTest, ClearRemovesEntriesAndFailures) {
  publish(kKey);
  publish(kOtherKey);
  {
    const WorkDirectory work = disk_.make_work_directory(kKey);
    CompileFailure failure;
    failure.log = "the log";
    const fs::path kept = disk_.keep_failed(kKey, failure, work);
    EXPECT_EQ(read_text(kept / "compile.log"), "the log");
    EXPECT_FALSE(fs::exists(work.path()));
  }
  EXPECT_EQ(disk_.clear(), 2);
  EXPECT_THAT(disk_.list(), IsEmpty());
  EXPECT_FALSE(fs::exists(fs::path(disk_.directory()) / "failed"));
}

TEST(CacheDirectory, FollowsTheEnvironment) {
  const ScopedVariable home("HOME", "/home/someone");
  const ScopedVariable cache("XDG_CACHE_HOME", "");
  const ScopedVariable chosen("TRENCADIS_CACHE_DIR", "");
  EXPECT_EQ(default_cache_directory(), "/home/someone/.cache/trencadis");
  const ScopedVariable other_cache("XDG_CACHE_HOME", "/var/cache");
  EXPECT_EQ(default_cache_directory(), "/var/cache/trencadis");
  const ScopedVariable other("TRENCADIS_CACHE_DIR", "/kernels");
  EXPECT_EQ(default_cache_directory(), "/kernels");
}

TEST(CacheDirectory, SaysWhatToSetWhereThereIsNone) {
  const ScopedVariable home("HOME", "");
  const ScopedVariable cache("XDG_CACHE_HOME", "");
  const ScopedVariable chosen("TRENCADIS_CACHE_DIR", "");
  EXPECT_THAT(error_text(ErrorKind::io, [] { default_cache_directory(); }),
              HasSubstr("set TRENCADIS_CACHE_DIR"));
}

}  // namespace
}  // namespace trencadis::jit
