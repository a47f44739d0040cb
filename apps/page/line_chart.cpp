#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <limits>

#include "apps/page/axis.h"
#include "apps/page/charts.h"
#include "apps/page/html.h"
#include "apps/terminal/text.h"
#include "engine/base/error.h"

namespace pursuit::apps {
namespace {

using Points = std::vector<std::pair<double, double>>;

// The points, with gaps (y is NaN) in place of those that cannot be drawn.
Points drawable(const LineSeries& series, const LineChart& chart) {
  Points points;
  for (auto [x, y] : series.points) {
    if (!std::isfinite(x) || (chart.log_x && x <= 0)) continue;
    if (!std::isfinite(y) || (chart.log_y && y <= 0)) y = std::numeric_limits<double>::quiet_NaN();
    points.emplace_back(x, y);
  }
  return points;
}

// Keeps the lowest and the highest point of every bucket, so that spikes survive and the file stays small.
Points thinned(const Points& points) {
  constexpr size_t buckets = 300;
  if (points.size() <= 2 * buckets) return points;
  Points kept;
  for (size_t b = 0; b < buckets; ++b) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(points.size() * b / buckets);
    const auto end = points.begin() + static_cast<std::ptrdiff_t>(points.size() * (b + 1) / buckets);
    auto lowest = end, highest = end;
    for (auto p = begin; p != end; ++p) {
      if (std::isnan(p->second)) continue;
      if (lowest == end || p->second < lowest->second) lowest = p;
      if (highest == end || p->second > highest->second) highest = p;
    }
    if (lowest == end) {
      kept.push_back(*begin);
      continue;
    }
    kept.push_back(*std::min(lowest, highest));
    if (lowest != highest) kept.push_back(*std::max(lowest, highest));
  }
  return kept;
}

// LOESS (Cleveland 1979): replaces each point by the value of a line fitted by weighted least squares, with
// tricube weights, to `reach` points on either side. Unlike a moving average it does not lag on slopes or at
// the ends.
Points smoothed(const Points& points, int reach) {
  Points known;
  std::copy_if(points.begin(), points.end(), std::back_inserter(known),
               [](const auto& p) { return !std::isnan(p.second); });
  Points out;
  const int n = int(known.size());
  for (int i = 0, at = 0; i < int(points.size()); ++i) {
    out.push_back(points[size_t(i)]);
    if (std::isnan(points[size_t(i)].second)) continue;
    const double x0 = known[size_t(at)].first;
    double w = 0, wx = 0, wxx = 0, wy = 0, wxy = 0;
    for (int k = std::max(0, at - reach); k <= std::min(n - 1, at + reach); ++k) {
      const double u = double(std::abs(k - at)) / (reach + 1), v = 1 - u * u * u, weight = v * v * v;
      const double x = known[size_t(k)].first - x0, y = known[size_t(k)].second;
      w += weight, wx += weight * x, wxx += weight * x * x, wy += weight * y, wxy += weight * x * y;
    }
    const double determinant = w * wxx - wx * wx;
    // The mean if all points have the same x.
    out.back().second = determinant > 1e-12 * w * wxx ? (wxx * wy - wx * wxy) / determinant : wy / w;
    ++at;
  }
  return out;
}

// SVG coordinates run from 0 to 1000 in both directions; CSS stretches the chart to the window.
constexpr double extent = 1000;

struct Frame {
  Axis x, y;
  std::string at(std::pair<double, double> point) const {
    return fmt::format("{:.1f} {:.1f}", extent * x.position(point.first),
                       extent * (1 - y.position(point.second)));
  }
};

std::string line_path(const Points& points, const Frame& frame) {
  std::string path;
  bool pen_down = false;
  for (const auto& point : points) {
    const bool gap = std::isnan(point.second);
    if (!gap) path += (pen_down ? "L" : "M") + frame.at(point);
    pen_down = !gap;
  }
  return path;
}

std::string dots_path(const Points& points, const Frame& frame) {
  std::string path;
  for (const auto& point : points)
    if (!std::isnan(point.second)) path += "M" + frame.at(point) + "h0";
  return path;
}

// "x:y" of every drawn point, in the order of line_path; the hover script shows them.
std::string point_labels(const Points& points) {
  std::string labels;
  for (const auto& [x, y] : points)
    if (!std::isnan(y)) labels += fmt::format("{}{:.7g}:{:.4g}", labels.empty() ? "" : " ", x, y);
  return labels;
}

// The area between the lows and the highs, at most `most` of them. What cannot be drawn is left out.
std::string band_svg(const LineSeries& series, const LineChart& chart, const std::string& look,
                     const Frame& frame) {
  constexpr size_t most = 600;
  const size_t every = (series.band.size() + most - 1) / most;
  Points lows, highs;
  for (size_t i = 0; i < series.band.size(); i += i + every < series.band.size() ? every : 1) {
    const double x = series.points[i].first, low = series.band[i].first, high = series.band[i].second;
    if (!std::isfinite(x + low + high) || (chart.log_x && x <= 0) || (chart.log_y && low <= 0)) continue;
    lows.emplace_back(x, low);
    highs.emplace_back(x, high);
  }
  if (lows.empty()) return "";
  Points around = lows;
  around.insert(around.end(), highs.rbegin(), highs.rend());
  return fmt::format("<path class=\"band {}\" d=\"{}Z\"/>", look, line_path(around, frame));
}

std::string series_svg(const LineSeries& series, const LineChart& chart, const Points& points, size_t index,
                       const Frame& frame) {
  const std::string look = fmt::format("s{}{}", index % 8, series.dashed || index >= 8 ? " dashed" : "");
  std::string svg = band_svg(series, chart, look, frame);
  Points main = points;
  if (series.smooth && points.size() > 20) {
    svg += fmt::format("<path class=\"line faint {}\" d=\"{}\"/>", look, line_path(thinned(points), frame));
    main = smoothed(points, std::max(2, int(points.size()) / 20));
  }
  if (series.dots)
    return fmt::format("<path class=\"dots small {}\" d=\"{}\"/>", look, dots_path(main, frame));
  main = thinned(main);
  svg += fmt::format("<path class=\"line {}\" d=\"{}\" data-name=\"{}\" data-points=\"{}\"/>", look,
                     line_path(main, frame), escape_html(series.name), point_labels(main));
  // Dots would fill the gaps of a dashed line.
  if (main.size() <= 40 && (!series.dashed || main.size() == 1))
    svg += fmt::format("<path class=\"dots {}\" d=\"{}\"/>", look, dots_path(main, frame));
  return svg;
}

}  // namespace

std::string to_html(const LineChart& chart) {
  std::vector<Points> all;
  std::vector<LegendEntry> legend;
  constexpr double inf = std::numeric_limits<double>::infinity();
  double low_x = inf, high_x = -inf, low_y = inf, high_y = -inf;
  for (const auto& series : chart.series) {
    if (!series.band.empty() && series.band.size() != series.points.size())
      fail("line chart", fmt::format("'{}', series '{}': got a band of {} values, need {} (one per point)",
                                     chart.title, series.name, series.band.size(), series.points.size()));
    all.push_back(drawable(series, chart));
    legend.push_back({series.name, series.dashed || legend.size() >= 8, !all.back().empty()});
    for (const auto& [x, y] : all.back()) {
      if (std::isnan(y)) continue;
      low_x = std::min(low_x, x), high_x = std::max(high_x, x);
      low_y = std::min(low_y, y), high_y = std::max(high_y, y);
    }
    for (const auto& [low, high] : series.band) {
      if (!std::isfinite(low + high) || (chart.log_y && low <= 0)) continue;
      low_y = std::min(low_y, low), high_y = std::max(high_y, high);
    }
  }
  if (low_x > high_x)
    return chart_figure(chart.title, chart.y_label, legend, "<p class=\"empty\">no values yet</p>",
                        chart.caption, false);

  const Frame frame{Axis(low_x, high_x, chart.log_x, 0), Axis(low_y, high_y, chart.log_y, 0.04)};
  std::string grid, y_labels, x_labels;
  int y_columns = 1;
  for (const auto& tick : frame.y.ticks(7)) {
    const double at = 1 - frame.y.position(tick.value);
    grid += fmt::format("<line x1=\"0\" x2=\"{0}\" y1=\"{1:.1f}\" y2=\"{1:.1f}\"/>", extent, extent * at);
    y_labels += fmt::format("<span style=\"top:{:.2f}%\">{}</span>", 100 * at, tick.label);
    y_columns = std::max(y_columns, display_width(tick.label));
  }
  for (const auto& tick : frame.x.ticks(5)) {
    const double at = frame.x.position(tick.value);
    grid += fmt::format("<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"0\" y2=\"{1}\"/>", extent * at, extent);
    x_labels += fmt::format("<span style=\"left:{:.2f}%\">{}</span>", 100 * at, tick.label);
  }
  std::string lines;
  for (size_t i = 0; i < all.size(); ++i)
    if (!all[i].empty()) lines += series_svg(chart.series[i], chart, all[i], i, frame);

  const std::string description = escape_html(chart.title + ": " + chart.y_label + " by " + chart.x_label);
  const std::string body = fmt::format(
      "<div class=\"lines\"><div class=\"y\" style=\"width:{}ch\">{}</div>"
      "<div class=\"plot\" data-x=\"{}\"><svg viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" "
      "role=\"img\" "
      "aria-label=\"{}\"><g class=\"grid\">{}</g>{}</svg></div>"
      "<div class=\"x\">{}</div><div class=\"x-label\">{}{}</div></div>\n",
      y_columns, y_labels, escape_html(chart.x_label), extent, extent, description, grid, lines, x_labels,
      escape_html(chart.x_label), chart.log_x ? " (log)" : "");
  return chart_figure(chart.title, chart.y_label + (chart.log_y ? " (log)" : ""), legend, body, chart.caption,
                      false);
}

std::string chart_figure(const std::string& title, const std::string& measure,
                         const std::vector<LegendEntry>& legend, const std::string& body,
                         const std::string& caption, bool wide) {
  std::string html = fmt::format("<figure class=\"card chart{}\"><div class=\"chart-head\"><h3>{}</h3>",
                                 wide ? " wide" : "", escape_html(title));
  if (!measure.empty()) html += "<span class=\"measure\">" + escape_html(measure) + "</span>";
  html += "</div>\n";
  if (legend.size() > 1) {
    html += "<div class=\"legend\">";
    for (size_t i = 0; i < legend.size(); ++i)
      if (legend[i].drawn)
        html += fmt::format("<span><i class=\"s{}{}\"></i>{}</span>", i % 8,
                            legend[i].dashed ? " dashed" : "", escape_html(legend[i].name));
    html += "</div>\n";
  }
  html += body;
  if (!caption.empty()) html += "<figcaption>" + escape_html(caption) + "</figcaption>\n";
  return html + "</figure>\n";
}

}  // namespace pursuit::apps
