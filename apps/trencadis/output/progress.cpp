#include "output/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace trencadis::app {
namespace {

using namespace std::chrono_literals;

double share_of(std::int64_t done, std::int64_t total) {
  return total > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0)
                   : 1.0;
}

std::string bar(double share) {
  constexpr int kCells = 30;
  std::string cells;
  const int full = static_cast<int>(share * kCells);
  for (int i = 0; i < kCells; ++i) cells += i < full ? "█" : "░";
  return cells;
}

}  // namespace

Progress::Progress(std::string label, std::int64_t total, std::FILE* stream)
    : label_(std::move(label)),
      total_(total),
      stream_(stream),
      terminal_(::isatty(::fileno(stream)) == 1),
      start_(Clock::now()),
      last_drawn_(start_ - 1s) {}

Progress::~Progress() {
  if (terminal_ && drawn_) fmt::print(stream_, "\n");
}

bool Progress::is_due(std::int64_t done) const {
  const double share = share_of(done, total_);
  if (terminal_) return share >= 1.0 || Clock::now() - last_drawn_ > 100ms;
  return static_cast<int>(share * 10.0) > tenths_;
}

void Progress::update(std::int64_t done, const std::string& note) {
  if (!is_due(done)) return;
  draw(share_of(done, total_), note);
  last_drawn_ = Clock::now();
  drawn_ = true;
}

void Progress::draw(double share, const std::string& note) {
  const double elapsed = std::chrono::duration<double>(Clock::now() - start_).count();
  const double left = share > 0.0 ? elapsed * (1.0 - share) / share : 0.0;
  tenths_ = static_cast<int>(share * 10.0);
  if (terminal_) {
    // \x1b[K wipes what a longer line left behind.
    fmt::print(stream_, "\r{} {} {:3.0f} %  {}  {:.0f} s left\x1b[K", label_, bar(share),
               share * 100.0, note, left);
  } else {
    fmt::print(stream_, "{} {:3.0f} %  {}  {:.0f} s\n", label_, share * 100.0, note, elapsed);
  }
  std::fflush(stream_);
}

}  // namespace trencadis::app
