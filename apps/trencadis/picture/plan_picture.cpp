#include "picture/plan_picture.h"

#include <utility>

namespace trencadis::app {

PlanPicture picture_of(const Plan& plan, std::string title, std::string device,
                       std::vector<std::string> requests) {
  return {std::move(title), std::move(device), plan.stats(),
          plan.timeline(),  plan.merges(),     std::move(requests)};
}

}  // namespace trencadis::app
