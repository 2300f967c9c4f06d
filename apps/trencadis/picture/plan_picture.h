// A plan with the names that a picture of it needs: what both drawings are made from.
#pragma once

#include <trencadis/plan.h>

#include <cstdint>
#include <string>
#include <vector>

namespace trencadis::app {

struct PlanPicture {
  std::string title;
  std::string device;
  PlanStats stats;
  std::vector<PlanSpan> spans;
  std::vector<PlanMerge> merges;
  std::vector<std::string> requests;  // [B] label of each, for the legend
};

PlanPicture picture_of(const Plan& plan, std::string title, std::string device,
                       std::vector<std::string> requests);

/// An SVG: a Gantt chart of the queues over predicted microseconds, one colour a request; partial
/// states are hatched and tied to the merge that contracts them.
std::string draw_svg(const PlanPicture& picture);

/// The same for a terminal: one line a queue (the first 16), a letter a request, lower case where a
/// span is a partial state.
std::string draw_text(const PlanPicture& picture, int columns = 72);

}  // namespace trencadis::app
