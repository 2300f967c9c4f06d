#include "trace/timestamp.h"

#include <gtest/gtest.h>

namespace trencadis::app {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

TEST(Timestamp, ReadsDateClockAndFraction) {
  EXPECT_EQ(parse_timestamp("1970-01-01 00:00:00"), 0);
  EXPECT_EQ(parse_timestamp("1970-01-02 01:02:03"), (86400 + 3723) * kSecond);
  EXPECT_EQ(parse_timestamp("2023-11-16 18:15:46.6805900"), 1700158546 * kSecond + 680590000);
  EXPECT_EQ(parse_timestamp("2024-02-29T12:00:00.5"), 1709208000 * kSecond + kSecond / 2);
}

TEST(Timestamp, DropsDigitsBeyondNanoseconds) {
  EXPECT_EQ(parse_timestamp("1970-01-01 00:00:00.1234567899"), 123456789);
}

TEST(Timestamp, TakesAZoneOff) {
  EXPECT_EQ(parse_timestamp("1970-01-01 02:30:00+02:30"), 0);
  EXPECT_EQ(parse_timestamp("1970-01-01 00:00:00.25-01:00"), 3600 * kSecond + kSecond / 4);
  EXPECT_EQ(parse_timestamp("1970-01-01 00:00:00Z"), 0);
}

TEST(Timestamp, RefusesWhatIsNotOne) {
  for (const char* text :
       {"", "0", "2023-11-16", "2023-11-16 18:15", "2023-13-01 00:00:00", "2023-02-29 00:00:00",
        "2023-11-16 24:00:00", "2023-11-16 18:60:00", "2023-11-16 18:15:46.", "23-11-16 18:15:46",
        "2023-11-16 18:15:46 ", "2023-11-16x18:15:46", "2023-11-16 18:15:46+2",
        "2023-11-16 18:15:46+15:00", "1969-12-31 23:59:59", "2262-01-01 00:00:00",
        "2023-11-16 18:15:-6"})
    EXPECT_EQ(parse_timestamp(text), std::nullopt) << text;
}

}  // namespace
}  // namespace trencadis::app
