// How far a long run is: a bar that redraws itself on a terminal, a line each tenth elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace trencadis::app {

class Progress {
 public:
  /// `total` in whatever unit update() counts.
  Progress(std::string label, std::int64_t total, std::FILE* stream = stderr);
  ~Progress();  // ends the bar's line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Cheap to call often. `note` is shown beside the bar.
  void update(std::int64_t done, const std::string& note);
  /// True where update() would draw, so that a caller need not make up a note.
  bool is_due(std::int64_t done) const;

 private:
  using Clock = std::chrono::steady_clock;
  void draw(double share, const std::string& note);

  std::string label_;
  std::int64_t total_;
  std::FILE* stream_;
  bool terminal_;
  Clock::time_point start_, last_drawn_;
  int tenths_ = 0;
  bool drawn_ = false;
};

}  // namespace trencadis::app
