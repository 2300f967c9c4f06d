#include "picture/plan_picture.h"

#include <gmock/gmock.h>

#include <pugixml.hpp>

namespace trencadis::app {
namespace {

using ::testing::HasSubstr;

/// Two queues: request 0 is split over both, request 1 is written through.
PlanPicture two_queues() {
  PlanPicture picture;
  picture.title = "A plan with <angle brackets> & more";
  picture.device = "cpu:2";
  picture.stats.queues = 2;
  picture.stats.mean_queue_us = 9.0;
  picture.spans = {{0, 0, 0, 0, 1, 0, 512, 0, 0.0, 8.0},
                   {1, 0, 0, 0, 1, 512, 1024, 1, 0.0, 8.0},
                   {1, 1, 0, 0, 4, 0, 64, -1, 8.0, 10.0}};
  picture.merges = {{0, 0, 0, 1, 0, 2}};
  picture.requests = {"the long one", "the short one"};
  return picture;
}

int count(const pugi::xml_node& group, const char* name) {
  int found = 0;
  for (const auto& child : group.children(name)) found += child ? 1 : 0;
  return found;
}

TEST(PlanSvg, ShowsEverySpanAndTiesPartialStatesToTheirMerge) {
  pugi::xml_document svg;
  ASSERT_TRUE(svg.load_string(draw_svg(two_queues()).c_str()));
  const auto group = [&](const char* id) {
    return svg.child("svg").find_child_by_attribute("g", "id", id);
  };
  EXPECT_EQ(count(group("spans"), "rect"), 3 + 2);  // the two partial ones are hatched on top
  EXPECT_EQ(count(group("merges"), "rect"), 1);
  EXPECT_EQ(count(group("links"), "path"), 2);
  EXPECT_STREQ(svg.child("svg").child("title").text().get(), two_queues().title.c_str());
}

TEST(PlanSvg, ColoursTellRequestsApart) {
  pugi::xml_document svg;
  ASSERT_TRUE(svg.load_string(draw_svg(two_queues()).c_str()));
  std::vector<std::string> fills;
  for (const auto& bar :
       svg.child("svg").find_child_by_attribute("g", "id", "spans").children("rect"))
    if (bar.child("title")) fills.emplace_back(bar.attribute("fill").value());
  ASSERT_EQ(fills.size(), 3u);
  EXPECT_EQ(fills[0], fills[1]);
  EXPECT_NE(fills[0], fills[2]);
}

TEST(PlanSvg, AnEmptyPlanIsStillAPicture) {
  pugi::xml_document svg;
  EXPECT_TRUE(svg.load_string(draw_svg({}).c_str()));
}

TEST(PlanText, ALetterARequestLowerCaseForPartialStates) {
  const std::string text = draw_text(two_queues(), 10);
  EXPECT_THAT(text, HasSubstr("0 |aaaaaaaa..| 8.0 us"));
  EXPECT_THAT(text, HasSubstr("1 |aaaaaaaaBB| 10.0 us"));
  EXPECT_THAT(text, HasSubstr("merges: 1"));
}

}  // namespace
}  // namespace trencadis::app
