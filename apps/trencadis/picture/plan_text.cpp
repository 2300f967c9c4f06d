#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "picture/plan_picture.h"

namespace trencadis::app {
namespace {

constexpr int kMostQueues = 16;

char letter(const PlanSpan& span) {
  const char first = span.partial_slot >= 0 ? 'a' : 'A';
  return static_cast<char>(first + span.request % 26);
}

double end_of(const PlanPicture& picture) {
  double end = 0.0;
  for (const PlanSpan& span : picture.spans) end = std::max(end, span.end_us);
  return end;
}

/// Each column shows the span at its middle; '.' where the queue is idle.
std::string draw_queue(const std::vector<const PlanSpan*>& spans, double end_us, int columns) {
  std::string line(static_cast<std::size_t>(columns), '.');
  for (const PlanSpan* span : spans) {
    const auto column = [&](double us) {
      return std::clamp(static_cast<int>(std::lround(us / end_us * columns)), 0, columns);
    };
    for (int c = column(span->begin_us); c < column(span->end_us); ++c)
      line[static_cast<std::size_t>(c)] = letter(*span);
  }
  return line;
}

}  // namespace

std::string draw_text(const PlanPicture& picture, int columns) {
  std::map<int, std::vector<const PlanSpan*>> queues;
  for (int q = 0; q < picture.stats.queues; ++q) queues[q];
  for (const PlanSpan& span : picture.spans) queues[span.queue].push_back(&span);

  const double end_us = std::max(end_of(picture), 1e-9);
  std::string text;
  int shown = 0;
  for (const auto& [queue, spans] : queues) {
    if (++shown > kMostQueues) {
      text += fmt::format("  ... and {} more queues\n", queues.size() - kMostQueues);
      break;
    }
    const double busy_us = spans.empty() ? 0.0 : spans.back()->end_us;
    text +=
        fmt::format("{:>6} |{}| {:.1f} us\n", queue, draw_queue(spans, end_us, columns), busy_us);
  }
  text += fmt::format(
      "        a letter a request (A is the first, after Z again A), lower case: a partial state; "
      "merges: {}\n",
      picture.merges.size());
  return text;
}

}  // namespace trencadis::app
