#include "trace/timestamp.h"

#include <chrono>

namespace trencadis::app {
namespace {

/// Takes exactly `digits` decimal digits off the front.
bool take_number(std::string_view& text, int digits, int& value) {
  if (text.size() < static_cast<std::size_t>(digits)) return false;
  value = 0;
  for (int i = 0; i < digits; ++i) {
    const char c = text[static_cast<std::size_t>(i)];
    if (c < '0' || c > '9') return false;
    value = value * 10 + (c - '0');
  }
  text.remove_prefix(static_cast<std::size_t>(digits));
  return true;
}

bool take_char(std::string_view& text, char expected) {
  if (text.empty() || text.front() != expected) return false;
  text.remove_prefix(1);
  return true;
}

std::optional<std::chrono::sys_days> take_date(std::string_view& text) {
  int year = 0, month = 0, day = 0;
  if (!take_number(text, 4, year) || !take_char(text, '-') || !take_number(text, 2, month) ||
      !take_char(text, '-') || !take_number(text, 2, day))
    return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year{year},
                                         std::chrono::month{static_cast<unsigned>(month)},
                                         std::chrono::day{static_cast<unsigned>(day)}};
  // Nanoseconds since 1970 leave 64 bits in 2262.
  if (!date.ok() || year < 1970 || year > 2261) return std::nullopt;
  return std::chrono::sys_days{date};
}

std::optional<std::chrono::seconds> take_clock(std::string_view& text) {
  int hour = 0, minute = 0, second = 0;
  if (!take_number(text, 2, hour) || !take_char(text, ':') || !take_number(text, 2, minute) ||
      !take_char(text, ':') || !take_number(text, 2, second))
    return std::nullopt;
  if (hour > 23 || minute > 59 || second > 60) return std::nullopt;  // 60: a leap second
  return std::chrono::hours{hour} + std::chrono::minutes{minute} + std::chrono::seconds{second};
}

std::optional<std::int64_t> take_fraction_ns(std::string_view& text) {
  if (!take_char(text, '.')) return 0;
  std::int64_t ns = 0, scale = 100'000'000;
  int digit = 0, digits = 0;
  for (; take_number(text, 1, digit); ++digits) {
    ns += digit * scale;
    scale /= 10;
  }
  if (digits == 0) return std::nullopt;
  return ns;
}

std::optional<std::chrono::minutes> take_zone(std::string_view& text) {
  using std::chrono::minutes;
  if (text.empty() || take_char(text, 'Z')) return minutes{0};
  const bool west = text.front() == '-';
  int hours = 0, mins = 0;
  if (!(take_char(text, '+') || take_char(text, '-')) || !take_number(text, 2, hours) ||
      !take_char(text, ':') || !take_number(text, 2, mins) || hours > 14 || mins > 59)
    return std::nullopt;
  return minutes{(west ? -1 : 1) * (hours * 60 + mins)};
}

}  // namespace

std::optional<std::int64_t> parse_timestamp(std::string_view text) {
  const auto date = take_date(text);
  if (!date || !(take_char(text, ' ') || take_char(text, 'T'))) return std::nullopt;
  const auto clock = take_clock(text);
  if (!clock) return std::nullopt;
  const auto fraction = take_fraction_ns(text);
  if (!fraction) return std::nullopt;
  const auto zone = take_zone(text);
  if (!zone || !text.empty()) return std::nullopt;
  const std::chrono::nanoseconds since_epoch = date->time_since_epoch() + *clock - *zone;
  return since_epoch.count() + *fraction;
}

}  // namespace trencadis::app
