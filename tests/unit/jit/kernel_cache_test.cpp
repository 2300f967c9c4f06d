#include "jit/kernel_cache.h"

#include "fixture.h"

namespace trencadis::jit {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Wraps the real compiler: counts, and can pretend to be another one.
class WatchedCompiler final : public Compiler {
 public:
  CompilerDescription describe() override {
    CompilerDescription description = real_.describe();
    if (missing) {
      description.available = false;
      description.reason = "no C++ compiler: none was found";
    }
    return description;
  }
  Language language() const override { return Language::host_cpp; }
  std::string architecture() override { return other_architecture + real_.architecture(); }
  std::string identity() override { return other_version + real_.identity(); }
  std::variant<Artifact, CompileFailure> compile(const KernelSource& source,
                                                 const std::string& work) override {
    ++compilations;
    return real_.compile(source, work);
  }

  int compilations = 0;
  bool missing = false;
  std::string other_architecture;
  std::string other_version;

 private:
  HostCompiler real_;
};

class KernelCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (find_program("c++").empty()) GTEST_SKIP() << "no C++ compiler here";
  }

  /// As a process that starts now sees it: nothing in memory.
  LoadedKernel load_afresh(const KernelSource& source) {
    return KernelCache().get_or_compile(source, compiler_, disk_);
  }

  TemporaryDirectory directory_;
  DiskCache disk_{(directory_ / "cache").string()};
  WatchedCompiler compiler_;
};

TEST_F(KernelCacheTest, CompilesOnceThenTakesFromMemoryAndDisk) {
  KernelCache cache;
  const LoadedKernel first = cache.get_or_compile(answer_kernel(5), compiler_, disk_);
  EXPECT_EQ(call_answer(first), 5);
  EXPECT_FALSE(first.from_cache);
  EXPECT_GT(first.seconds, 0.0);
  EXPECT_EQ(first.path, disk_.entry_path(first.key));
  EXPECT_TRUE(fs::exists(first.path));

  const LoadedKernel second = cache.get_or_compile(answer_kernel(5), compiler_, disk_);
  EXPECT_EQ(second.module, first.module) << "from memory";
  EXPECT_TRUE(second.from_cache);
  const LoadedKernel third = load_afresh(answer_kernel(5));
  EXPECT_NE(third.module, first.module) << "from disk";
  EXPECT_TRUE(third.from_cache);
  EXPECT_EQ(third.seconds, 0.0);
  EXPECT_EQ(call_answer(third), 5);
  EXPECT_EQ(compiler_.compilations, 1);
}

TEST_F(KernelCacheTest, ModulesThatComeAndGoAreNotMistakenForOneAnother) {
  for (int answer = 0; answer < 4; ++answer) {
    EXPECT_EQ(call_answer(load_afresh(answer_kernel(answer))), answer);
  }
  // This one defines a symbol that keeps the linker from ever unloading it.
  KernelSource sticky = answer_kernel(100);
  sticky.text +=
      "template <class T> struct S { static inline int x = 1; };\n"
      "extern \"C\" int* unique() { return &S<int>::x; }\n";
  EXPECT_EQ(call_answer(load_afresh(sticky)), 100);
  EXPECT_EQ(call_answer(load_afresh(answer_kernel(7))), 7);
}

TEST_F(KernelCacheTest, J2_OtherBytesRebuildWhateverTheirAge) {
  const LoadedKernel kernel = load_afresh(answer_kernel(1));
  fs::last_write_time(kernel.path, fs::file_time_type::clock::now() + std::chrono::hours(24));
  EXPECT_EQ(call_answer(load_afresh(answer_kernel(2))), 2);
  EXPECT_EQ(compiler_.compilations, 2);
  fs::last_write_time(kernel.path, fs::file_time_type::clock::now() - std::chrono::hours(24));
  EXPECT_EQ(call_answer(load_afresh(answer_kernel(1))), 1);
  EXPECT_EQ(compiler_.compilations, 2) << "age alone rebuilds nothing";
}

TEST_F(KernelCacheTest, J2_AnotherVersionOrArchitectureMisses) {
  load_afresh(answer_kernel(1));
  compiler_.other_version = "13 ";
  load_afresh(answer_kernel(1));
  compiler_.other_architecture = "sm_100a ";
  load_afresh(answer_kernel(1));
  EXPECT_EQ(compiler_.compilations, 3);
  EXPECT_EQ(disk_.list().size(), 3u);
}

TEST_F(KernelCacheTest, J2_ACorruptEntryIsRebuilt) {
  const LoadedKernel kernel = load_afresh(answer_kernel(1));
  const std::string whole = read_text(kernel.path);
  std::string flipped = whole;
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 1);
  int expected = 1;
  for (const std::string& bytes :
       {std::string(), whole.substr(0, 20), whole.substr(0, whole.size() - 1), flipped,
        std::string(whole.size(), 'x')}) {
    write_text(kernel.path, bytes);
    EXPECT_EQ(call_answer(load_afresh(answer_kernel(1))), 1);
    EXPECT_EQ(compiler_.compilations, ++expected);
    EXPECT_EQ(read_text(kernel.path), whole) << "the entry is whole again";
  }
}

TEST_F(KernelCacheTest, J2_AnEntryThatDoesNotLoadIsRebuilt) {
  const LoadedKernel kernel = load_afresh(answer_kernel(1));
  EntryInfo info = disk_.read(kernel.key)->info;
  const Artifact nonsense(1000, std::byte{42});
  disk_.publish(info, nonsense, disk_.make_work_directory(kernel.key));
  EXPECT_EQ(call_answer(load_afresh(answer_kernel(1))), 1);
  EXPECT_EQ(compiler_.compilations, 2);
}

TEST_F(KernelCacheTest, AKernelWithoutItsSymbolIsAnError) {
  KernelSource source = answer_kernel(1);
  source.symbols.emplace_back("question");
  EXPECT_THAT(error_text(ErrorKind::io, [&] { load_afresh(source); }),
              AllOf(HasSubstr("answer"), HasSubstr("'question'")));
  EXPECT_TRUE(disk_.list().empty()) << "it is not kept";
}

TEST_F(KernelCacheTest, J3_AnErrorShowsTheLineThePlaceAndTheRemedy) {
  KernelSource source = answer_kernel(1);
  source.text += "#line 1 \"variant\"\nfloat logits_transform(float x) { return x +; }\n";
  const std::string text = error_text(ErrorKind::compile_failed, [&] { load_afresh(source); });
  EXPECT_THAT(text, AllOf(HasSubstr("kernel answer"), HasSubstr("variant:1:"), HasSubstr("error: "),
                          HasSubstr("mend the source")));
  EXPECT_EQ(text.find('\n'), std::string::npos) << "one line";
  const fs::path failed = fs::path(disk_.directory()) / "failed";
  const fs::path kept = fs::directory_iterator(failed)->path();
  EXPECT_THAT(text, HasSubstr(kept.string()));
  EXPECT_EQ(read_text(kept / "kernel.cpp"), source.text);
  EXPECT_THAT(read_text(kept / "compile.log"), HasSubstr("variant:1:"));
  // The kept command repeats the failure where the source lies.
  ProcessOptions here;
  here.directory = kept;
  EXPECT_THAT(run_process({"/bin/sh", "-c", "exec " + read_text(kept / "command")}, here).output,
              HasSubstr("variant:1:"));
  EXPECT_THROW(load_afresh(source), Error) << "a failure is not remembered as a success";
  EXPECT_EQ(compiler_.compilations, 2);
}

TEST_F(KernelCacheTest, J3_AMissingCompilerIsNotSupported) {
  compiler_.missing = true;
  EXPECT_THAT(error_text(ErrorKind::not_supported, [&] { load_afresh(answer_kernel(1)); }),
              AllOf(HasSubstr("kernel answer is not in the cache"), HasSubstr(disk_.directory()),
                    HasSubstr("none was found"), HasSubstr("make answer")));
}

TEST_F(KernelCacheTest, J4_APrebuiltKernelNeedsNoCompiler) {
  load_afresh(answer_kernel(4));
  compiler_.missing = true;
  EXPECT_EQ(call_answer(load_afresh(answer_kernel(4))), 4);
  compiler_.other_architecture = "another processor ";
  EXPECT_THROW(load_afresh(answer_kernel(4)), Error) << "made for this processor only";
}

// Permissions do not bind the superuser, so the test gives its privileges up.
int as_ordinary_user(const std::function<int()>& body) {
  constexpr uid_t kNobody = 65534;
  return wait_for(start_process([&] {
    if (geteuid() == 0 && (setgid(kNobody) != 0 || setuid(kNobody) != 0)) return 98;
    return body();
  }));
}

TEST_F(KernelCacheTest, J4_AReadOnlyCacheServesAndNamesWhatIsMissing) {
  load_afresh(answer_kernel(4));
  for (const char* path : {".", "locks", "work"}) {
    fs::permissions(fs::path(disk_.directory()) / path, fs::perms(0555));
  }
  const auto before = snapshot(directory_.path());
  const int served = as_ordinary_user([&] {
    return call_answer(load_afresh(answer_kernel(4))) == 4 && compiler_.compilations == 1 ? 0 : 1;
  });
  EXPECT_EQ(served, 0);
  const int missing = as_ordinary_user([&] {
    try {
      load_afresh(answer_kernel(5));
      return 1;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::io);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("kernel answer"), HasSubstr(disk_.directory()),
                                      HasSubstr("make answer"), HasSubstr("Permission denied")));
      return ::testing::Test::HasFailure() ? 2 : 0;
    }
  });
  EXPECT_EQ(missing, 0);
  EXPECT_EQ(snapshot(directory_.path()), before) << "nothing was written";
  fs::permissions(disk_.directory(), fs::perms(0755));
}

}  // namespace
}  // namespace trencadis::jit
