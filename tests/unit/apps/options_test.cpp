#include "options.h"

#include <gmock/gmock.h>
#include <trencadis/error.h>

namespace trencadis::app {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Lengths, AreQueryAndKvWithARepeat) {
  EXPECT_THAT(parse_lengths({"1:4096,512:512x2", "0:0"}),
              ElementsAre(RequestLengths{1, 4096}, RequestLengths{512, 512},
                          RequestLengths{512, 512}, RequestLengths{0, 0}));
}

TEST(Lengths, AMalformedItemIsNamed) {
  for (const char* item : {"", "1", "1:", ":1", "1:2x", "1:2x0", "1:2y3", "-1:2", "1:2:3",
                           "1:99999999999", "1:2x9999999"}) {
    try {
      parse_lengths({"1:1", item});
      FAIL() << item;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument);
      EXPECT_THAT(error.what(), HasSubstr("\"" + std::string(item) + "\"")) << item;
    }
  }
}

TEST(ScheduleOptions, SayWhatIsAllowed) {
  ScheduleOptions options;
  EXPECT_EQ(options.plan_options().split, SplitMode::automatic);
  options.split = "none";
  EXPECT_EQ(options.plan_options().split, SplitMode::none);
  options.split = "256";
  EXPECT_EQ(options.plan_options().split, SplitMode::fixed);
  EXPECT_EQ(options.plan_options().fixed_split_tokens, 256);
  options.scheduler = "even-cut";
  EXPECT_EQ(options.plan_options().scheduler, Scheduler::even_cut);
  options.scheduler = "l2-windows";
  EXPECT_EQ(options.plan_options().scheduler, Scheduler::l2_windows);
  options.split = "0";
  EXPECT_THROW(options.plan_options(), Error);
  options.split = "auto";
  options.scheduler = "best";
  EXPECT_THROW(options.plan_options(), Error);
}

TEST(StorageDtype, IsFloating) {
  EXPECT_EQ(parse_storage_dtype("bf16"), DType::bf16);
  EXPECT_THROW(parse_storage_dtype("int32"), Error);
  EXPECT_THROW(parse_storage_dtype("fp99"), Error);
}

}  // namespace
}  // namespace trencadis::app
