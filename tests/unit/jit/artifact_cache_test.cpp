#include "jit/artifact_cache.h"

#include <atomic>
#include <thread>
#include <vector>

#include "device_kernel.h"
#include "fixture.h"
#include "jit/nvrtc_compiler.h"

namespace trencadis::jit {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Stands for NVRTC on machines without: the artifact is the text, with the architecture before it.
class TextCompiler final : public Compiler {
 public:
  explicit TextCompiler(std::string architecture) : architecture_(std::move(architecture)) {}

  CompilerDescription describe() override {
    return {.name = "text", .available = !missing, .path = "", .version = "1", .reason = "no text"};
  }
  Language language() const override { return Language::cuda_cpp; }
  std::string architecture() override { return architecture_; }
  std::string identity() override { return identity_text; }
  std::variant<Artifact, CompileFailure> compile(const KernelSource& source,
                                                 const std::string&) override {
    ++compilations;
    if (source.text.find("oops") != std::string::npos)
      return CompileFailure{"variant(1): error: oops", "mend it", "all of it", "repeat"};
    const std::string text = architecture_ + "\n" + source.text;
    const auto bytes = std::as_bytes(std::span(text));
    return Artifact(bytes.begin(), bytes.end());
  }

  std::atomic<int> compilations = 0;
  bool missing = false;
  std::string identity_text = "text 1";

 private:
  std::string architecture_;
};

class ArtifactCacheTest : public ::testing::Test {
 protected:
  LoadedArtifact load_afresh(const KernelSource& source, Compiler& compiler) {
    return ArtifactCache().get_or_compile(source, compiler, disk_);
  }

  TemporaryDirectory directory_;
  DiskCache disk_{(directory_ / "cache").string()};
  TextCompiler compiler_{"sm_90a"};
};

TEST_F(ArtifactCacheTest, CompilesOnceThenTakesFromMemoryAndDisk) {
  ArtifactCache cache;
  const LoadedArtifact first = cache.get_or_compile(device_kernel(), compiler_, disk_);
  EXPECT_FALSE(first.from_cache);
  EXPECT_EQ(first.path, disk_.entry_path(first.key));
  EXPECT_TRUE(fs::exists(first.path));
  const LoadedArtifact second = cache.get_or_compile(device_kernel(), compiler_, disk_);
  EXPECT_EQ(second.artifact, first.artifact) << "the same bytes, not a copy";
  EXPECT_TRUE(second.from_cache);
  const LoadedArtifact third = load_afresh(device_kernel(), compiler_);
  EXPECT_EQ(*third.artifact, *first.artifact);
  EXPECT_TRUE(third.from_cache);
  EXPECT_EQ(third.seconds, 0.0);
  EXPECT_EQ(compiler_.compilations, 1);
}

TEST_F(ArtifactCacheTest, J2_AnotherArchitectureOrVersionMisses) {
  ArtifactCache cache;
  TextCompiler other("sm_100a");
  const LoadedArtifact hopper = cache.get_or_compile(device_kernel(), compiler_, disk_);
  const LoadedArtifact blackwell = cache.get_or_compile(device_kernel(), other, disk_);
  EXPECT_NE(hopper.key, blackwell.key);
  EXPECT_NE(*hopper.artifact, *blackwell.artifact) << "two devices of one process";
  compiler_.identity_text = "text 2";
  EXPECT_FALSE(cache.get_or_compile(device_kernel(), compiler_, disk_).from_cache);
}

TEST_F(ArtifactCacheTest, J2_ACorruptEntryIsRebuilt) {
  const LoadedArtifact kernel = load_afresh(device_kernel(), compiler_);
  std::string bytes = read_text(kernel.path);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_text(kernel.path, bytes);
  EXPECT_EQ(*load_afresh(device_kernel(), compiler_).artifact, *kernel.artifact);
  EXPECT_EQ(compiler_.compilations, 2);
}

TEST_F(ArtifactCacheTest, J1_ThreadsShareOneCompilation) {
  ArtifactCache cache;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      EXPECT_FALSE(cache.get_or_compile(device_kernel(), compiler_, disk_).artifact->empty());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compiler_.compilations, 1);
}

TEST_F(ArtifactCacheTest, J3_AFailureIsKeptAndNotRemembered) {
  ArtifactCache cache;
  const KernelSource wrong = device_kernel("oops");
  const auto compile = [&] { cache.get_or_compile(wrong, compiler_, disk_); };
  EXPECT_THAT(error_text(ErrorKind::compile_failed, compile),
              AllOf(HasSubstr("kernel scale does not compile: variant(1): error: oops"),
                    HasSubstr(disk_.directory() + "/failed/"), HasSubstr("mend it")));
  error_text(ErrorKind::compile_failed, compile);
  EXPECT_EQ(compiler_.compilations, 2);
}

TEST_F(ArtifactCacheTest, J4_APrebuiltKernelNeedsNoCompiler) {
  const LoadedArtifact built = load_afresh(device_kernel(), compiler_);
  compiler_.missing = true;
  EXPECT_EQ(*load_afresh(device_kernel(), compiler_).artifact, *built.artifact);
  TextCompiler other("sm_100a");
  other.missing = true;
  EXPECT_THAT(error_text(ErrorKind::not_supported, [&] { load_afresh(device_kernel(), other); }),
              AllOf(HasSubstr("kernel scale is not in the cache"), HasSubstr("no text"),
                    HasSubstr("make scale")));
}

TEST_F(ArtifactCacheTest, ABundleComesFirstAndIsNotWritten) {
  const LoadedArtifact built = load_afresh(device_kernel(), compiler_);
  const TemporaryDirectory elsewhere;
  const DiskCache empty((elsewhere / "cache").string());
  const ScopedVariable bundle("TRENCADIS_BUNDLE", disk_.directory());
  const auto load = [&](const KernelSource& source, TextCompiler& compiler) {
    ArtifactCache cache;
    return cache.get_or_compile(source, compiler, empty);
  };
  const auto in_bundle = [&] { return disk_.list().size(); };
  for (const bool missing : {false, true}) {
    TextCompiler newer("sm_90a");
    newer.identity_text = "text 2";
    newer.missing = missing;
    const LoadedArtifact kernel = load(device_kernel(), newer);
    EXPECT_EQ(*kernel.artifact, *built.artifact);
    EXPECT_EQ(kernel.path, built.path);
    EXPECT_TRUE(kernel.from_cache);
    EXPECT_EQ(newer.compilations, 0);
  }
  EXPECT_FALSE(fs::exists(empty.directory()));

  // Another architecture, and a damaged entry, are compiled into the cache.
  TextCompiler other("sm_100a");
  EXPECT_FALSE(load(device_kernel(), other).from_cache);
  write_text(built.path, read_text(built.path) + "!");
  EXPECT_FALSE(load(device_kernel(), compiler_).from_cache);
  EXPECT_EQ(in_bundle(), 1u);
  EXPECT_EQ(empty.list().size(), 2u);

  other.missing = true;
  EXPECT_THAT(error_text(ErrorKind::not_supported, [&] { load(device_kernel("more"), other); }),
              HasSubstr("kernel scale is neither in the bundle " + disk_.directory() +
                        " nor in the cache " + empty.directory()));
}

TEST_F(ArtifactCacheTest, ABundleThatIsNoDirectoryIsNamed) {
  const ScopedVariable bundle("TRENCADIS_BUNDLE", disk_.directory() + "/nowhere");
  EXPECT_THAT(error_text(ErrorKind::io, [&] { load_afresh(device_kernel(), compiler_); }),
              AllOf(HasSubstr("TRENCADIS_BUNDLE is "), HasSubstr("nowhere, expected a directory")));
}

TEST_F(ArtifactCacheTest, AHostKernelIsRefused) {
  EXPECT_THAT(
      error_text(ErrorKind::invalid_argument, [&] { load_afresh(answer_kernel(1), compiler_); }),
      AllOf(HasSubstr("kernel answer is C++"), HasSubstr("takes CUDA C++")));
}

TEST_F(ArtifactCacheTest, NvrtcFillsTheUsersCache) {
  if (const CompilerDescription nvrtc = describe_nvrtc(); !nvrtc.available)
    GTEST_SKIP() << nvrtc.reason;
  const ScopedVariable place("TRENCADIS_CACHE_DIR", disk_.directory());
  const LoadedArtifact first = load_device_kernel(device_kernel(), "sm_90a");
  EXPECT_FALSE(first.from_cache);
  EXPECT_GT(first.seconds, 0.0);
  const LoadedArtifact second = load_device_kernel(device_kernel(), "sm_90a");
  EXPECT_TRUE(second.from_cache);
  EXPECT_EQ(second.artifact, first.artifact);
  EXPECT_NE(load_device_kernel(device_kernel(), "sm_80").key, first.key);
  const std::vector<EntryInfo> entries = disk_.list();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].compiler, describe_nvrtc().version);
}

}  // namespace
}  // namespace trencadis::jit
