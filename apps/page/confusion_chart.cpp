#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "apps/page/charts.h"
#include "apps/page/heatmap.h"
#include "apps/page/html.h"
#include "engine/base/error.h"

namespace pursuit::apps {
namespace {

constexpr size_t largest_table = 30;

struct Counts {
  const ConfusionChart& matrix;
  size_t size;
  std::vector<int64_t> totals;  // number of pictures per true class

  explicit Counts(const ConfusionChart& m) : matrix(m), size(m.classes.size()) {
    if (size == 0 || m.counts.size() != size * size)
      fail("confusion matrix", fmt::format("'{}': got {} counts, need {} x {} (one row per true class)",
                                           m.title, m.counts.size(), size, size));
    for (size_t t = 0; t < size; ++t)
      totals.push_back(std::accumulate(m.counts.begin() + static_cast<std::ptrdiff_t>(t * size),
                                       m.counts.begin() + static_cast<std::ptrdiff_t>((t + 1) * size),
                                       int64_t(0)));
  }
  int64_t at(size_t truth, size_t predicted) const { return matrix.counts[truth * size + predicted]; }
  double share(size_t truth, size_t predicted) const {
    return totals[truth] > 0 ? double(at(truth, predicted)) / double(totals[truth]) : 0;
  }
};

std::string recall_text(const Counts& counts, size_t truth) {
  return counts.totals[truth] > 0 ? fmt::format("{:.1f}%", 100 * counts.share(truth, truth)) : "–";
}

std::string table_html(const Counts& counts) {
  std::string html =
      "<div class=\"scroll\"><table class=\"confusion\"><thead><tr><td class=\"corner\">true ↓ · predicted "
      "→</td>";
  for (const auto& name : counts.matrix.classes)
    html += "<th scope=\"col\"><span>" + escape_html(name) + "</span></th>";
  html += "<th scope=\"col\" class=\"recall\">recall</th></tr></thead>\n<tbody>";
  for (size_t t = 0; t < counts.size; ++t) {
    html += "<tr><th scope=\"row\">" + escape_html(counts.matrix.classes[t]) + "</th>";
    for (size_t p = 0; p < counts.size; ++p) {
      // The square root makes rare confusions visible beside a strong diagonal.
      const double shade = std::sqrt(counts.share(t, p));
      html += fmt::format("<td class=\"{}{}\" style=\"--a:{:.2f}\">{}</td>", t == p ? "hit" : "miss",
                          shade > 0.6            ? " deep"
                          : counts.at(t, p) == 0 ? " none"
                                                 : "",
                          shade, counts.at(t, p));
    }
    html += "<td class=\"recall\">" + recall_text(counts, t) + "</td></tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string picture_html(const Counts& counts) {
  const int size = static_cast<int>(counts.size);
  data::Image picture(size, size, 3);
  for (int t = 0; t < size; ++t)
    for (int p = 0; p < size; ++p) {
      const auto color = heat_color(static_cast<float>(std::sqrt(counts.share(size_t(t), size_t(p)))));
      std::copy(color.begin(), color.end(), picture.at(p, t));
    }
  return fmt::format(
      "<div class=\"confusion-picture\"><img class=\"confusion\" alt=\"{} by {} confusion matrix\" "
      "src=\"{}\"/>"
      "<p class=\"note\">Rows: true classes. Columns: predicted classes. "
      "Strength of colour: square root of the share of the row.</p></div>\n",
      size, size, png_data_uri(picture));
}

struct Confusion {
  size_t truth, predicted;
  int64_t count;
};

std::string summary_html(const Counts& counts) {
  std::vector<Confusion> confusions;
  std::vector<size_t> hardest;
  for (size_t t = 0; t < counts.size; ++t) {
    if (counts.totals[t] > 0) hardest.push_back(t);
    for (size_t p = 0; p < counts.size; ++p)
      if (t != p && counts.at(t, p) > 0) confusions.push_back({t, p, counts.at(t, p)});
  }
  std::stable_sort(confusions.begin(), confusions.end(), [](auto& a, auto& b) { return a.count > b.count; });
  std::stable_sort(hardest.begin(), hardest.end(),
                   [&](size_t a, size_t b) { return counts.share(a, a) < counts.share(b, b); });
  confusions.resize(std::min<size_t>(confusions.size(), 6));
  hardest.resize(std::min<size_t>(hardest.size(), 4));

  const auto& classes = counts.matrix.classes;
  std::string html = "<div class=\"confused\">";
  if (!confusions.empty()) html += "<h4>Most often confused</h4><ul>";
  for (const auto& c : confusions)
    html += fmt::format("<li><span>{} taken for {}</span><b>{}</b></li>", escape_html(classes[c.truth]),
                        escape_html(classes[c.predicted]), c.count);
  if (!confusions.empty()) html += "</ul>";
  if (!hardest.empty()) html += "<h4>Lowest recall</h4><ul>";
  for (const size_t t : hardest)
    html += fmt::format("<li><span>{}</span><b>{}</b></li>", escape_html(classes[t]), recall_text(counts, t));
  if (!hardest.empty()) html += "</ul>";
  return html + "</div>\n";
}

}  // namespace

std::string to_html(const ConfusionChart& matrix) {
  const Counts counts(matrix);
  const std::string body = counts.size <= largest_table ? table_html(counts) : picture_html(counts);
  return chart_figure(matrix.title, "", {},
                      "<div class=\"confusion-body\">" + body + summary_html(counts) + "</div>\n",
                      matrix.caption, true);
}

}  // namespace pursuit::apps
