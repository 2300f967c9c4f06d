#include "jit/content_key.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace trencadis::jit {
namespace {

constexpr std::array<EmbeddedFile, 2> kHeaders = {{{"a.h", "text a"}, {"b.h", "text b"}}};

KernelSource make_source() {
  KernelSource source;
  source.name = "kernel";
  source.text = "int x;";
  source.symbols = {"x"};
  source.abi = 1;
  source.headers = kHeaders;
  return source;
}

std::string key(const KernelSource& source) {
  return content_key(source, "arch", "gcc 12").key;
}

TEST(ContentKey, IsAFunctionOfContent) {
  EXPECT_EQ(key(make_source()), key(make_source()));
  EXPECT_EQ(key(make_source()).size(), 32u);
  KernelSource renamed = make_source();
  renamed.name = "another name";
  renamed.prebuild_command = "another command";
  EXPECT_EQ(key(renamed), key(make_source()));
}

TEST(ContentKey, J2_EveryPartOfTheContentCounts) {
  std::set<std::string> keys = {key(make_source())};
  const auto add = [&](const std::string& one, const char* what) {
    EXPECT_TRUE(keys.insert(one).second) << what;
  };
  KernelSource source = make_source();
  source.text += " ";
  add(key(source), "text");
  source = make_source();
  source.abi = 2;
  add(key(source), "abi");
  source = make_source();
  source.language = Language::cuda_cpp;
  add(key(source), "language");
  constexpr std::array<EmbeddedFile, 2> kOtherText = {{{"a.h", "text A"}, {"b.h", "text b"}}};
  source = make_source();
  source.headers = kOtherText;
  add(key(source), "a header's text");
  constexpr std::array<EmbeddedFile, 2> kOtherPath = {{{"c.h", "text a"}, {"b.h", "text b"}}};
  source.headers = kOtherPath;
  add(key(source), "a header's path");
  source.headers = {};
  add(key(source), "no headers");
  add(content_key(make_source(), "sm_90a", "gcc 12").key, "architecture");
  add(content_key(make_source(), "arch", "gcc 13").key, "compiler");
}

TEST(ContentKey, J2_BoundariesBetweenFieldsCount) {
  constexpr std::array<EmbeddedFile, 1> kOne = {{{"ab", "c"}}};
  constexpr std::array<EmbeddedFile, 1> kTwo = {{{"a", "bc"}}};
  KernelSource source = make_source();
  source.headers = kOne;
  const std::string first = key(source);
  source.headers = kTwo;
  EXPECT_NE(key(source), first);
  EXPECT_NE(content_key(source, "ab", "c").key, content_key(source, "a", "bc").key);
}

TEST(ContentKey, SourceKeyKnowsNoCompiler) {
  const ContentKey one = content_key(make_source(), "arch", "gcc 12");
  const ContentKey other = content_key(make_source(), "sm_90a", "nvrtc 13");
  EXPECT_EQ(one.source_key, other.source_key);
  EXPECT_EQ(one.source_key, source_key(make_source()));
  EXPECT_NE(one.key, one.source_key);
}

}  // namespace
}  // namespace trencadis::jit
