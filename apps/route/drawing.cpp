#include "apps/route/drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace pursuit::route {

namespace {

// Tableau's ten colours, which are told apart on light and on dark pages.
constexpr std::array<const char*, 10> kColours = {"#4e79a7", "#f28e2b", "#e15759", "#76b7b2", "#59a14f",
                                                  "#edc948", "#b07aa1", "#ff9da7", "#9c755f", "#7f7f7f"};

}  // namespace

std::string to_svg(const data::RoutingInstance& instance, const data::Routes& routes, int side) {
  // Lambdas of clang 14 capture no structured bindings.
  const auto along_x = std::minmax_element(instance.nodes.begin(), instance.nodes.end(),
                                           [](const auto& a, const auto& b) { return a.x < b.x; });
  const auto along_y = std::minmax_element(instance.nodes.begin(), instance.nodes.end(),
                                           [](const auto& a, const auto& b) { return a.y < b.y; });
  const double left = along_x.first->x, width = along_x.second->x - left;
  const double low = along_y.first->y, height = along_y.second->y - low;
  constexpr double margin = 8;
  const double extent = std::max({width, height, 1e-12});
  const double scale = (side - 2 * margin) / extent;
  const auto x = [&](const data::Location& p) { return margin + scale * (p.x - left); };
  const auto y = [&](const data::Location& p) {
    return side - margin - scale * (p.y - low);
  };  // y grows upwards

  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {0}\" role=\"img\" fill=\"none\">", side);
  for (size_t i = 0; i < routes.size(); ++i) {
    std::string points;
    const auto add = [&](int64_t node) {
      const data::Location& p = instance.nodes[size_t(node)];
      points += fmt::format("{:.1f},{:.1f} ", x(p), y(p));
    };
    if (instance.has_depot()) add(0);
    for (const int64_t node : routes[i]) add(node);
    svg +=
        fmt::format("<polygon points=\"{}\" stroke=\"{}\" stroke-width=\"1.5\" stroke-linejoin=\"round\"/>\n",
                    points, kColours[i % kColours.size()]);
  }
  // Smaller where there are many.
  const double radius = std::clamp(30 / std::sqrt(double(instance.size())), 0.8, 3.0);
  for (size_t i = instance.has_depot(); i < instance.nodes.size(); ++i)
    svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\" fill=\"currentColor\"/>\n",
                       x(instance.nodes[i]), y(instance.nodes[i]), radius);
  if (instance.has_depot())
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"10\" height=\"10\" fill=\"currentColor\"/>\n",
                       x(instance.nodes[0]) - 5, y(instance.nodes[0]) - 5);
  return svg + "</svg>";
}

}  // namespace pursuit::route
