#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/page/charts.h"
#include "apps/page/html.h"
#include "engine/base/error.h"

namespace pursuit::apps {
namespace {

constexpr int bar_height = 13, bar_gap = 2, group_padding = 5;

struct Scale {
  double low, high;
  double percent(double value) const { return 100 * (value - low) / (high - low); }
};

// The scale holds zero and every value.
Scale scale_of(const BarChart& chart) {
  Scale scale{0, 0};
  for (const auto& series : chart.series)
    for (const double value : series.values)
      if (std::isfinite(value)) scale = {std::min(scale.low, value), std::max(scale.high, value)};
  if (scale.low == scale.high) scale.high = 1;
  return scale;
}

std::string group_svg(const BarChart& chart, size_t group, const Scale& scale) {
  const int height =
      static_cast<int>(chart.series.size()) * (bar_height + bar_gap) - bar_gap + 2 * group_padding;
  const double zero = scale.percent(0);
  std::string svg = fmt::format(
      "<svg height=\"{0}\" role=\"img\" aria-label=\"{1}\">"
      "<line class=\"zero\" x1=\"{2:.2f}%\" x2=\"{2:.2f}%\" y1=\"0\" y2=\"{0}\"/>",
      height, escape_html(chart.groups[group]), zero);
  for (size_t s = 0; s < chart.series.size(); ++s) {
    const double value = chart.series[s].values[group];
    if (!std::isfinite(value)) continue;
    const double at = scale.percent(value), left = std::min(at, zero), right = std::max(at, zero);
    const int top = group_padding + static_cast<int>(s) * (bar_height + bar_gap);
    const std::string label = fmt::format("{:.{}f}", value, chart.decimals);
    svg += fmt::format(
        "<rect class=\"s{}\" x=\"{:.2f}%\" y=\"{}\" width=\"{:.2f}%\" height=\"{}\" rx=\"2\"><title>{}: "
        "{}</title></rect>"
        "<text x=\"{:.2f}%\" y=\"{}\" dx=\"5\">{}</text>",
        s % 8, left, top, right - left, bar_height, escape_html(chart.series[s].name), label, right,
        top + bar_height - 3, label);
  }
  return svg + "</svg>";
}

}  // namespace

std::string to_html(const BarChart& chart) {
  std::vector<LegendEntry> legend;
  for (const auto& series : chart.series) {
    if (series.values.size() != chart.groups.size())
      fail("bar chart", fmt::format("'{}', series '{}': got {} values, need {} (one per group)", chart.title,
                                    series.name, series.values.size(), chart.groups.size()));
    legend.push_back({series.name});
  }
  const Scale scale = scale_of(chart);
  const bool wide = chart.groups.size() * chart.series.size() > 24;
  std::string body = wide ? "<div class=\"bars two\">" : "<div class=\"bars\">";
  for (size_t g = 0; g < chart.groups.size(); ++g) {
    const std::string name = escape_html(chart.groups[g]);
    body += fmt::format("<div class=\"bar-group\"><span title=\"{0}\">{0}</span><div>{1}</div></div>\n", name,
                        group_svg(chart, g, scale));
  }
  return chart_figure(chart.title, chart.value_label, legend, body + "</div>\n", chart.caption, wide);
}

}  // namespace pursuit::apps
