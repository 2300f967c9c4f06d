#include <filesystem>

#include "fixture.h"
#include "jit/nvrtc.h"

namespace trencadis::jit {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

TEST(NvrtcSearch, IsHereWithAVersionOrSaysWhereItWasSought) {
  const CompilerDescription nvrtc = describe_nvrtc();
  EXPECT_EQ(nvrtc.name, "nvrtc");
  if (nvrtc.available) {
    EXPECT_THAT(nvrtc.version, ContainsRegex("^[0-9]+\\.[0-9]+$"));
    EXPECT_THAT(nvrtc.path, HasSubstr("libnvrtc"));
  } else {
    EXPECT_THAT(nvrtc.reason, AllOf(HasSubstr("/usr/local/cuda"), HasSubstr("$CUDA_HOME"),
                                    HasSubstr("$VIRTUAL_ENV"), HasSubstr("nvidia-cuda-nvrtc")));
  }
}

TEST(NvrtcSearch, J3_AChosenLibraryIsTheOnlyOneTried) {
  const ScopedVariable chosen("TRENCADIS_LIBNVRTC", "/nonexistent/libnvrtc.so");
  const NvrtcSearch search = find_nvrtc();
  EXPECT_FALSE(search.description.available);
  EXPECT_FALSE(search.functions.has_value());
  EXPECT_THAT(search.description.reason,
              AllOf(HasSubstr("TRENCADIS_LIBNVRTC is set"), HasSubstr("/nonexistent/libnvrtc.so")));
}

TEST(NvrtcSearch, J3_ALibraryThatIsNoNvrtcIsNamed) {
  const ScopedVariable chosen("TRENCADIS_LIBNVRTC", "libm.so.6");
  EXPECT_THAT(describe_nvrtc().reason, AllOf(HasSubstr("libm"), HasSubstr("its version")));
}

/// Compiles a library of one function in C++.
std::string write_library(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  write_text(path.string() + ".cpp", text);
  run_process({find_program("c++"), "-shared", "-fPIC", path.string() + ".cpp", "-o", path});
  return path;
}

TEST(NvrtcSearch, J3_AnOldNvrtcIsRefusedWithBothVersions) {
  if (find_program("c++").empty()) GTEST_SKIP() << "no C++ compiler here";
  const TemporaryDirectory directory;
  const ScopedVariable chosen(
      "TRENCADIS_LIBNVRTC",
      write_library(
          directory / "libnvrtc-old.so",
          "extern \"C\" int nvrtcVersion(int* a, int* b) { *a = 11; *b = 8; return 0; }"));
  EXPECT_THAT(describe_nvrtc().reason,
              AllOf(HasSubstr("libnvrtc-old.so is NVRTC 11.8"), HasSubstr("needed is 12.0")));
}

TEST(NvrtcSearch, LooksWhereTheLinkerDoesThenInToolkitsThenInPythonsPackages) {
  const TemporaryDirectory directory;
  const std::string packages = "lib/python3.11/site-packages";
  for (const char* prefix : {"venv", "conda"}) {
    fs::create_directories(directory / prefix / packages);
  }
  const ScopedVariable none("TRENCADIS_LIBNVRTC", "");
  const ScopedVariable home("CUDA_HOME", "/opt/cuda");
  const ScopedVariable path("CUDA_PATH", "");
  const ScopedVariable venv("VIRTUAL_ENV", (directory / "venv").string());
  const ScopedVariable conda("CONDA_PREFIX", (directory / "conda").string());
  const ScopedVariable python("PYTHONPATH", "/target::/other");

  std::vector<std::string> directories;  // of the newest library
  for (const std::string& candidate : nvrtc_candidates()) {
    const fs::path file(candidate);
    if (file.filename() == "libnvrtc.so.13") directories.push_back(file.parent_path());
  }
  std::vector<std::string> expected = {"", "/opt/cuda/lib64", "/usr/local/cuda/lib64",
                                       (directory / "conda/lib").string()};
  for (const std::string& place :
       {(directory / "venv" / packages).string(), (directory / "conda" / packages).string(),
        std::string("/target"), std::string("/other")}) {
    expected.push_back(place + "/nvidia/cu13/lib");
    expected.push_back(place + "/nvidia/cuda_nvrtc/lib");
  }
  EXPECT_EQ(directories, expected);
}

/// A library that works may lie anywhere.
TEST(NvrtcSearch, TakesTheFirstThatWorks) {
  if (find_program("c++").empty()) GTEST_SKIP() << "no C++ compiler here";
  std::string text =
      "extern \"C\" int nvrtcVersion(int* a, int* b) { *a = 12; *b = 9; return 0; }\n";
  for (const char* name :
       {"GetErrorString", "CreateProgram", "DestroyProgram", "CompileProgram", "GetProgramLogSize",
        "GetProgramLog", "GetCUBINSize", "GetCUBIN", "GetPTXSize", "GetPTX"}) {
    text += std::string("extern \"C\" void nvrtc") + name + "() {}\n";
  }
  const TemporaryDirectory directory;
  const std::string library = write_library(directory / "mine.so", text);
  const ScopedVariable chosen("TRENCADIS_LIBNVRTC", library);
  const NvrtcSearch search = find_nvrtc();
  EXPECT_TRUE(search.description.available) << search.description.reason;
  EXPECT_EQ(search.description.version, "12.9");
  EXPECT_EQ(search.description.path, library);
  EXPECT_TRUE(search.functions.has_value());
}

}  // namespace
}  // namespace trencadis::jit
