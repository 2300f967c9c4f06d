// The Gantt chart of a plan. Left to right: the queues over predicted time, then the contraction,
// where each split query tile has a bar that its partial states lead to.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <pugixml.hpp>
#include <sstream>
#include <utility>

#include "picture/plan_picture.h"

namespace trencadis::app {
namespace {

constexpr double kLeft = 64, kTop = 84, kPlotWidth = 900, kLinkWidth = 90, kMergeWidth = 70,
                 kRight = 28;
constexpr double kMergeLeft = kLeft + kPlotWidth + kLinkWidth;
constexpr double kWidth = kMergeLeft + kMergeWidth + kRight;
constexpr int kLegendColumns = 4;
constexpr int kMostLegendRows = 9;
constexpr double kLegendLine = 18;

constexpr const char* kStyle =
    "text{font-family:system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:#24292f}"
    ".title{font-size:17px;font-weight:600}.note{font-size:12px;fill:#57606a}"
    ".tick{font-size:11px;fill:#57606a}.legend{font-size:11px}";

using Attributes = std::initializer_list<std::pair<const char*, std::string>>;

pugi::xml_node add(pugi::xml_node parent, const char* name, Attributes attributes) {
  pugi::xml_node node = parent.append_child(name);
  for (const auto& [key, value] : attributes) node.append_attribute(key) = value.c_str();
  return node;
}

std::string px(double value) {
  return fmt::format("{:.2f}", value);
}

void add_text(pugi::xml_node parent, double x, double y, const char* css, const std::string& text,
              const char* anchor = "start") {
  add(parent, "text", {{"x", px(x)}, {"y", px(y)}, {"class", css}, {"text-anchor", anchor}})
      .text()
      .set(text.c_str());
}

/// As "#rrggbb": not every renderer of SVG knows hsl(). Hue in degrees, the others in 0 .. 1.
std::string hex_of_hsl(double hue, double saturation, double lightness) {
  const double reach = saturation * std::min(lightness, 1.0 - lightness);
  const auto channel = [&](double offset) {
    const double k = std::fmod(offset + hue / 30.0, 12.0);
    const double value = lightness - reach * std::clamp(std::min(k - 3.0, 9.0 - k), -1.0, 1.0);
    return static_cast<int>(std::lround(255.0 * value));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", channel(0.0), channel(8.0), channel(4.0));
}

/// Neighbours differ most where the hue steps by the golden angle; lightness alternates as well.
std::string colour(int request, double darker = 0.0) {
  constexpr double kLightness[] = {0.62, 0.72, 0.56};
  const double hue = std::fmod(212.0 + 137.508 * request, 360.0);
  return hex_of_hsl(hue, request % 2 == 0 ? 0.60 : 0.48, kLightness[request % 3] - darker);
}

/// 1, 2 or 5 times a power of ten, so that about eight of them make `range`.
double tick_step(double range) {
  const double rough = range / 8.0;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (rough <= factor * power) return factor * power;
  return 10.0 * power;
}

class Gantt {
 public:
  explicit Gantt(const PlanPicture& picture) : picture_(picture) {
    for (const PlanSpan& span : picture.spans) end_us_ = std::max(end_us_, span.end_us);
    const double queues = std::max(picture.stats.queues, 1);
    row_ = queues <= 6 ? 46.0 : std::max(std::min(26.0, 640.0 / queues), 4.5);
    height_ = row_ * queues;
  }

  std::string draw() {
    const double legend_top = kTop + height_ + 64;
    const double total = legend_top + kLegendLine * (legend_rows() + 2) + 12;
    svg_ = add(document_, "svg",
               {{"xmlns", "http://www.w3.org/2000/svg"},
                {"viewBox", fmt::format("0 0 {:.0f} {:.0f}", kWidth, total)},
                {"width", px(kWidth)},
                {"height", px(total)},
                {"role", "img"}});
    add(svg_, "title", {}).text().set(picture_.title.c_str());
    add(svg_, "style", {}).text().set(kStyle);
    add_hatch();
    add(svg_, "rect", {{"width", "100%"}, {"height", "100%"}, {"fill", "#ffffff"}});
    draw_heading();
    draw_axis();
    draw_spans();
    draw_merges();
    draw_mean();
    draw_legend(legend_top);
    std::ostringstream text;
    document_.save(text, " ", pugi::format_indent, pugi::encoding_utf8);
    return text.str();
  }

 private:
  double x_of(double us) const { return kLeft + kPlotWidth * us / end_us_; }
  double y_of(int queue) const { return kTop + row_ * queue; }
  double bar_height() const { return row_ > 12 ? row_ - 6 : row_ - 0.8; }

  int legend_rows() const {
    const auto requests = static_cast<int>(picture_.requests.size());
    return std::min((requests + kLegendColumns - 1) / kLegendColumns, kMostLegendRows);
  }

  void add_hatch() {
    pugi::xml_node pattern = add(add(svg_, "defs", {}), "pattern",
                                 {{"id", "partial"},
                                  {"width", "6"},
                                  {"height", "6"},
                                  {"patternUnits", "userSpaceOnUse"},
                                  {"patternTransform", "rotate(45)"}});
    add(pattern, "rect",
        {{"width", "2.2"}, {"height", "6"}, {"fill", "#ffffff"}, {"fill-opacity", "0.55"}});
  }

  void draw_heading() {
    const PlanStats& s = picture_.stats;
    add_text(svg_, kLeft, 32, "title", picture_.title);
    add_text(svg_, kLeft, 54, "note",
             fmt::format("{}: {} requests, {} work items on {} queues; longest queue {:.1f} µs, "
                         "balance {:.3f}; {:.1f} % of query tiles split, {} partial states, {} "
                         "merges",
                         picture_.device, s.requests, s.items, s.queues, s.longest_queue_us,
                         s.balance, 100.0 * s.split_share, s.partial_slots, s.merges));
    if (!picture_.merges.empty())
      add_text(svg_, kMergeLeft + kMergeWidth / 2, kTop - 10, "note", "merge", "middle");
  }

  void draw_axis() {
    const double bottom = kTop + height_;
    add(svg_, "rect",
        {{"x", px(kLeft)},
         {"y", px(kTop)},
         {"width", px(kPlotWidth)},
         {"height", px(height_)},
         {"fill", "#f3f4f6"}});
    const double step = tick_step(end_us_);
    for (double us = 0.0; us <= end_us_ * 1.0001; us += step) {
      add_line(x_of(us), kTop, x_of(us), bottom + 5, "#d0d7de", 1.0);
      add_text(svg_, x_of(us), bottom + 19, "tick", fmt::format("{:g}", us), "middle");
    }
    add_text(svg_, kLeft + kPlotWidth / 2, bottom + 38, "note",
             "predicted time since the launch, µs", "middle");
    const int every = std::max(1, static_cast<int>(std::ceil(13.0 / row_)));
    for (int queue = 0; queue < picture_.stats.queues; ++queue)
      if (queue % every == 0)
        add_text(svg_, kLeft - 8, y_of(queue) + row_ / 2 + 4, "tick", fmt::format("{}", queue),
                 "end");
    const double middle = kTop + height_ / 2;
    add(svg_, "text",
        {{"x", "18"},
         {"y", px(middle)},
         {"class", "note"},
         {"text-anchor", "middle"},
         {"transform", fmt::format("rotate(-90 18 {:.1f})", middle)}})
        .text()
        .set("queue");
  }

  void add_line(double x1, double y1, double x2, double y2, const char* stroke, double width) {
    add(svg_, "line",
        {{"x1", px(x1)},
         {"y1", px(y1)},
         {"x2", px(x2)},
         {"y2", px(y2)},
         {"stroke", stroke},
         {"stroke-width", px(width)}});
  }

  void draw_spans() {
    pugi::xml_node group = add(svg_, "g", {{"id", "spans"}});
    for (const PlanSpan& span : picture_.spans) {
      const double x = x_of(span.begin_us);
      const double width = std::max(x_of(span.end_us) - x, 0.3);
      const double y = y_of(span.queue) + (row_ - bar_height()) / 2;
      const bool partial = span.partial_slot >= 0;
      pugi::xml_node bar = add_bar(group, x, y, width, bar_height(), colour(span.request));
      if (width > 2.0) {
        bar.append_attribute("stroke") = partial ? colour(span.request, 0.26).c_str() : "#ffffff";
        bar.append_attribute("stroke-width") = row_ > 12 ? "1" : "0.5";
      }
      add(bar, "title", {}).text().set(describe(span).c_str());
      if (partial) add_bar(group, x, y, width, bar_height(), "url(#partial)");
    }
  }

  static pugi::xml_node add_bar(pugi::xml_node parent, double x, double y, double width,
                                double height, const std::string& fill) {
    return add(
        parent, "rect",
        {{"x", px(x)}, {"y", px(y)}, {"width", px(width)}, {"height", px(height)}, {"fill", fill}});
  }

  std::string describe(const PlanSpan& span) const {
    const std::string destination = span.partial_slot >= 0
                                        ? fmt::format("partial state in slot {}", span.partial_slot)
                                        : "written through";
    return fmt::format("{}; KV head {}, rows {}-{}, KV {}-{}, {}, {:.1f}-{:.1f} µs",
                       label(span.request), span.kv_head, span.row_begin, span.row_end,
                       span.kv_begin, span.kv_end, destination, span.begin_us, span.end_us);
  }

  std::string label(int request) const {
    const auto index = static_cast<std::size_t>(request);
    return index < picture_.requests.size() ? picture_.requests[index]
                                            : fmt::format("request {}", request);
  }

  /// Merges stand in the order of their partial states' queues, so that few links cross.
  void draw_merges() {
    std::map<int, const PlanSpan*> by_slot;
    for (const PlanSpan& span : picture_.spans)
      if (span.partial_slot >= 0) by_slot[span.partial_slot] = &span;

    std::vector<std::pair<double, const PlanMerge*>> ordered;
    for (const PlanMerge& merge : picture_.merges) {
      double queues = 0.0;
      for (int i = 0; i < merge.num_slots; ++i)
        if (const auto at = by_slot.find(merge.first_slot + i); at != by_slot.end())
          queues += at->second->queue;
      ordered.emplace_back(queues / std::max(merge.num_slots, 1), &merge);
    }
    std::stable_sort(ordered.begin(), ordered.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });

    pugi::xml_node links = add(svg_, "g", {{"id", "links"}, {"fill", "none"}});
    pugi::xml_node bars = add(svg_, "g", {{"id", "merges"}});
    const double pitch = height_ / static_cast<double>(std::max<std::size_t>(ordered.size(), 1));
    for (std::size_t i = 0; i < ordered.size(); ++i) {
      const PlanMerge& merge = *ordered[i].second;
      const double middle = kTop + pitch * (static_cast<double>(i) + 0.5);
      draw_merge(bars, merge, middle, std::min(16.0, pitch * 0.8));
      for (int slot = merge.first_slot; slot < merge.first_slot + merge.num_slots; ++slot)
        if (const auto at = by_slot.find(slot); at != by_slot.end())
          draw_link(links, *at->second, middle);
    }
  }

  void draw_merge(pugi::xml_node bars, const PlanMerge& merge, double middle, double height) const {
    pugi::xml_node bar =
        add_bar(bars, kMergeLeft, middle - height / 2, kMergeWidth, height, colour(merge.request));
    bar.append_attribute("rx") = px(std::min(3.0, height / 3)).c_str();
    add(bar, "title", {})
        .text()
        .set(fmt::format("{}; KV head {}, rows {}-{}: merges {} partial states from slot {}",
                         label(merge.request), merge.kv_head, merge.row_begin, merge.row_end,
                         merge.num_slots, merge.first_slot)
                 .c_str());
    if (height > 10)
      add(bars, "text",
          {{"x", px(kMergeLeft + kMergeWidth / 2)},
           {"y", px(middle + 4)},
           {"class", "legend"},
           {"text-anchor", "middle"}})
          .text()
          .set(fmt::format("⊕ {}", merge.num_slots).c_str());
  }

  void draw_link(pugi::xml_node links, const PlanSpan& span, double merge_y) const {
    const double x = x_of(span.end_us), y = y_of(span.queue) + row_ / 2;
    const double bend = kLeft + kPlotWidth + kLinkWidth * 0.5;
    add(links, "circle",
        {{"cx", px(x)},
         {"cy", px(y)},
         {"r", row_ > 12 ? "2.5" : "1.2"},
         {"fill", colour(span.request, 0.26)}});
    add(links, "path",
        {{"d", fmt::format("M{:.2f} {:.2f}H{:.2f}C{:.2f} {:.2f} {:.2f} {:.2f} {:.2f} {:.2f}", x, y,
                           kLeft + kPlotWidth, bend, y, bend, merge_y, kMergeLeft, merge_y)},
         {"stroke", colour(span.request, 0.18)},
         {"stroke-width", row_ > 12 ? "1.4" : "0.8"},
         {"stroke-opacity", row_ > 12 ? "0.85" : "0.55"}});
  }

  void draw_mean() {
    const double x = x_of(picture_.stats.mean_queue_us);
    add_line(x, kTop - 6, x, kTop + height_, "#24292f", 1.0);
    svg_.last_child().append_attribute("stroke-dasharray") = "4 3";
    add_text(svg_, x - 4, kTop - 10, "tick",
             fmt::format("mean queue {:.1f} µs", picture_.stats.mean_queue_us), "end");
  }

  void draw_legend(double top) {
    const auto requests = static_cast<int>(picture_.requests.size());
    const int shown = std::min(requests, legend_rows() * kLegendColumns);
    const double column = (kWidth - kLeft - kRight) / kLegendColumns;
    draw_key(kLeft, top, "#8c959f", false, "written through");
    draw_key(kLeft + column, top, "#8c959f", true, "partial state (O, LSE), leads to its merge");
    for (int i = 0; i < shown; ++i) {
      const double x = kLeft + column * (i % kLegendColumns);
      const double y = top + kLegendLine * (1 + i / kLegendColumns);
      draw_key(x, y, colour(i), false, label(i));
    }
    if (shown < requests)
      add_text(svg_, kLeft, top + kLegendLine * (legend_rows() + 1) + 10, "legend",
               fmt::format("and {} more requests", requests - shown));
  }

  void draw_key(double x, double y, const std::string& fill, bool hatched,
                const std::string& text) {
    add_bar(svg_, x, y, 14, 11, fill);
    if (hatched) add_bar(svg_, x, y, 14, 11, "url(#partial)");
    add_text(svg_, x + 20, y + 10, "legend", text);
  }

  const PlanPicture& picture_;
  pugi::xml_document document_;
  pugi::xml_node svg_;
  double end_us_ = 1e-9;
  double row_ = 0.0;     // height of a queue
  double height_ = 0.0;  // of all queues
};

}  // namespace

std::string draw_svg(const PlanPicture& picture) {
  return Gantt(picture).draw();
}

}  // namespace trencadis::app
