#include "apps/page/report.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "apps/page/axis.h"
#include "apps/page/heatmap.h"
#include "apps/page/html.h"
#include "apps/terminal/table.h"
#include "engine/base/error.h"

using namespace pursuit::apps;
using pursuit::Error;
using pursuit::data::Image;

namespace {

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// Checks that tags nest and every attribute is quoted; enough for pages written as XML.
bool is_well_formed(const std::string& html, const std::string& root) {
  std::vector<std::string> open;
  size_t at = html.find("<" + root);
  while (at != std::string::npos) {
    size_t end = at + 1;
    for (char quote = 0; end < html.size() && (quote || html[end] != '>'); ++end) {
      if (html[end] == '<' && !quote) return false;
      if (html[end] == '"') quote = quote ? 0 : '"';
    }
    if (end >= html.size()) return false;
    const std::string tag = html.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" \n/", 1));
    if (tag[0] == '/') {
      if (open.empty() || "/" + open.back() != tag) return false;
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
    at = html.find('<', end);
  }
  return open.empty();
}

}  // namespace

TEST_CASE("escaping and base64") {
  CHECK(escape_html("<a href=\"x\">'&'</a>") == "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;");
  CHECK(escape_html(std::string("a\0b\x1B\xFF", 5)) == "a b \xEF\xBF\xBD");
  CHECK(escape_html("λ\n") == "λ\n");
  const auto encoded = [](const std::string& text) { return base64({text.begin(), text.end()}); };
  CHECK(encoded("") == "");
  CHECK(encoded("f") == "Zg==");
  CHECK(encoded("fo") == "Zm8=");
  CHECK(encoded("foobar") == "Zm9vYmFy");
}

TEST_CASE("ticks are round, inside the axis, and told apart by their labels") {
  const auto labels = [](const Axis& axis) {
    std::string text;
    for (const auto& tick : axis.ticks(5)) text += tick.label + " ";
    return text;
  };
  CHECK(labels(Axis(0, 10, false, 0)) == "0 2 4 6 8 10 ");
  CHECK(labels(Axis(-0.02, 0.03, false, 0)) == "-0.02 -0.01 0 0.01 0.02 0.03 ");
  CHECK(labels(Axis(0, 100000, false, 0)) == "0 20k 40k 60k 80k 100k ");
  CHECK(labels(Axis(0.001, 10, true, 0)) == "0.001 0.01 0.1 1 10 ");
  CHECK(labels(Axis(1, 20, true, 0)) == "1 2 5 10 20 ");
  CHECK(!Axis(3, 3, false, 0).ticks(5).empty());
  CHECK(!Axis(0, 0, false, 0).ticks(5).empty());
  CHECK(Axis(1, 100, true, 0).position(10) == doctest::Approx(0.5));
}

TEST_CASE("a report with every block is well-formed, escaped and self-contained") {
  const std::string hostile = "<script>alert(\"1\")</script>&'";
  Report report(hostile, hostile);
  report.highlights({{hostile, "93%", hostile}});
  for (int i = 0; i < 2; ++i) report.section(hostile);
  report.heading(hostile);
  report.paragraph(hostile);
  report.code(hostile);
  report.key_values({{hostile, hostile}});
  report.table({{hostile, "n"}, {{hostile, "1"}, {"short"}}, {Best::none, Best::highest}}, hostile);
  report.chart(LineChart{
      hostile, hostile, hostile, {{hostile, {{0, 1}, {1, nan_value}, {2, 3}}}, {"b", {{1, 2}}, true, true}}});
  report.chart(LineChart{"empty", "x", "y", {{"none", {{0, nan_value}}}}});
  report.chart(LineChart{"log", "x", "y", {{"s", {{0, 1}, {1, 0}, {10, 5}}}}, true, true});
  report.chart(BarChart{hostile, hostile, {hostile, "g"}, {{hostile, {1, -2}}, {"s", {nan_value, 0}}}});
  report.chart(ConfusionChart{hostile, {hostile, "b"}, {8, 2, 0, 0}, hostile});
  report.pictures({hostile,
                   {{Image(3, 2, 3), hostile, Mark::bad}, {Image(200, 200, 1), ""}},
                   2,
                   {hostile, "b"},
                   hostile});
  report.swatches(hostile, {{{0, 9, 255}, hostile}, {{1, 2, 3}, "b"}});
  const std::string html = report.html();

  CHECK(!is_well_formed(html.substr(0, html.rfind("</main>")), "html"));
  const size_t script = html.rfind("<script>"), script_end = html.rfind("</script>");
  CHECK(is_well_formed(html.substr(0, script + 8) + html.substr(script_end), "html"));
  CHECK(count(html, "<script") == 1);
  CHECK(!contains(html, "alert(\"1\")"));
  CHECK(count(html, "&lt;script&gt;alert(&quot;1&quot;)") > 15);
  CHECK(!contains(html, "nan"));
  for (const char* external : {"http:", "https:", "src=\"/", "url(", "@import", "<link"})
    CHECK_MESSAGE(!contains(html, external), std::string(external));
  CHECK(count(html, "src=\"data:image/png;base64,") == 2);
  CHECK(contains(html, "prefers-color-scheme: dark"));
  CHECK(contains(html, "80.0%"));
}

TEST_CASE("tables: the other way round, the best of a row is marked") {
  const Table table{{"run", "accuracy", "loss", "name"},
                    {{"a", "81.2", "0.5", "first"}, {"b", "79.0", "0.3"}},
                    {Best::none, Best::highest, Best::lowest}};
  const Table turned = transposed(table);
  CHECK(turned.columns == std::vector<std::string>{"run", "a", "b"});
  CHECK(turned.rows == std::vector<std::vector<std::string>>{
                           {"accuracy", "81.2", "79.0"}, {"loss", "0.5", "0.3"}, {"name", "first", ""}});
  const auto best = best_cells(turned);
  CHECK(best[0] == std::vector<bool>{false, true, false});
  CHECK(best[1] == std::vector<bool>{false, false, true});
  CHECK(best[2] == std::vector<bool>{false, false, false});
  CHECK(to_text(turned).find("81.2*") != std::string::npos);
}

TEST_CASE("charts: smoothing follows a slope without lag, and takes the noise away") {
  const auto paths = [](const std::vector<std::pair<double, double>>& points) {
    const std::string html =
        to_html(LineChart{"Loss", "step", "", {{.name = "a", .points = points, .smooth = true}}});
    std::vector<std::string> found;
    for (size_t at = 0; (at = html.find(" d=\"", at)) != std::string::npos; at += 4)
      found.push_back(html.substr(at + 4, html.find('"', at + 4) - at - 4));
    return found;
  };
  std::vector<std::pair<double, double>> line, noisy, few;
  for (int i = 0; i < 200; ++i) {
    line.emplace_back(10 * i, 5 - 0.02 * i);
    noisy.emplace_back(10 * i, 5 - 0.02 * i + (i % 2 ? 1 : -1));
    if (i < 20) few.push_back(noisy.back());
  }
  // The raw line and the smoothed one; an exponential average would hang behind.
  const auto straight = paths(line);
  REQUIRE(straight.size() == 2);
  CHECK(straight[0] == straight[1]);
  const auto heights = [](std::string path) {
    std::replace_if(
        path.begin(), path.end(), [](char c) { return c == 'M' || c == 'L'; }, ' ');
    std::istringstream in(path);
    std::vector<double> out;
    for (double x, y; in >> x >> y;) out.push_back(y);
    return out;
  };
  const auto rough = paths(noisy);
  const std::vector<double> raw = heights(rough.at(0)), smooth = heights(rough.at(1));
  REQUIRE(raw.size() == 200);
  REQUIRE(smooth.size() == 200);
  const auto roughness = [](const std::vector<double>& y) {
    double sum = 0;
    for (size_t i = 1; i < y.size(); ++i) sum += std::abs(y[i] - y[i - 1]);
    return sum;
  };
  CHECK(roughness(smooth) < 0.05 * roughness(raw));
  CHECK(paths(few).size() == 2);  // a line and its dots, but no second line
}

TEST_CASE("charts: a band is one closed area, and widens the axis") {
  using Band = std::vector<std::pair<double, double>>;
  const auto area = [](const Band& band) {
    const std::string html = to_html(LineChart{
        "t", "x", "y", {{.name = "s", .points = {{0, 1}, {1, 2}, {2, nan_value}, {3, 2}}, .band = band}}});
    const size_t at = html.find("<path class=\"band s0\" d=\"");
    if (at == std::string::npos) return std::string();
    const size_t begin = html.find("d=\"", at) + 3;
    return html.substr(begin, html.find('"', begin) - begin);
  };
  // With 4 % of room the axis goes from -0.4 to 10.4: a low of 0 is at 963, a high of 10 at 37.
  CHECK(area({{0, 2}, {1, 10}, {nan_value, nan_value}, {1, 3}}) ==
        "M0.0 963.0L333.3 870.4L1000.0 870.4L1000.0 685.2L333.3 37.0L0.0 777.8Z");
  CHECK(area({}) == "");
  CHECK_THROWS_AS(area({{0, 1}}), Error);
}

TEST_CASE("a series without points leaves the others their colours") {
  const auto chart = [](bool with) {
    const std::vector<std::pair<double, double>> points = {{0, 1}, {1, 2}}, none;
    return to_html(LineChart{"t", "x", "y", {{"a", points}, {"b", with ? points : none}, {"c", points}}});
  };
  for (const std::string part : {"<path class=\"line s1\"", "<i class=\"s1\"></i>b"}) {
    CAPTURE(part);
    CHECK(contains(chart(true), part));
    CHECK(!contains(chart(false), part));
  }
  for (const std::string part : {"<path class=\"line s2\"", "<i class=\"s2\"></i>c"})
    CHECK_MESSAGE(contains(chart(false), part), part);
}

TEST_CASE("long series are thinned but keep their spikes") {
  LineChart chart{"t", "x", "y", {{"s", {}}}};
  for (int i = 0; i < 20000; ++i) chart.series[0].points.emplace_back(i, i == 12345 ? 777.5 : 1.0);
  const std::string html = to_html(chart);
  CHECK(html.size() < 60000);
  CHECK(contains(html, "12345:777.5"));
}

TEST_CASE("a large confusion matrix becomes a picture with its worst pairs") {
  ConfusionChart matrix{"m", {}, std::vector<int64_t>(40 * 40)};
  for (size_t i = 0; i < 40; ++i) {
    matrix.classes.push_back("class" + std::to_string(i));
    matrix.counts[i * 41] = 10;
  }
  matrix.counts[7 * 40 + 9] = 30;
  const std::string html = to_html(matrix);
  CHECK(contains(html, "data:image/png;base64,"));
  CHECK(contains(html, "class7 taken for class9"));
  CHECK(contains(html, "25.0%"));
}

TEST_CASE("charts refuse sizes that do not fit") {
  CHECK_THROWS_AS(to_html(BarChart{"t", "v", {"a", "b"}, {{"s", {1}}}}), Error);
  CHECK_THROWS_AS(to_html(ConfusionChart{"t", {"a", "b"}, {1, 2, 3}}), Error);
  CHECK_THROWS_AS(to_html(ConfusionChart{"t", {}, {}}), Error);
}

TEST_CASE("heat maps are upsampled bilinearly and mixed in") {
  Image grey(8, 8, 1);
  std::fill(grey.pixels.begin(), grey.pixels.end(), uint8_t(100));
  const Image plain = blend_heatmap(grey, {0, 1, 2, 3}, 2, 2, 0);
  CHECK(plain.channels == 3);
  CHECK(plain.pixels == std::vector<uint8_t>(8 * 8 * 3, 100));

  const Image full = blend_heatmap(grey, {0, 1, 2, 3}, 2, 2, 1);
  const auto color_at = [&](int x, int y) {
    return std::array<uint8_t, 3>{full.at(x, y)[0], full.at(x, y)[1], full.at(x, y)[2]};
  };
  CHECK(color_at(0, 0) == heat_color(0));
  CHECK(color_at(7, 7) == heat_color(1));
  // Pixel 3 of 8 lies at (3.5 / 8) * 2 - 0.5 = 0.375 of the way from cell 0 to cell 1.
  CHECK(color_at(3, 0) == heat_color(0.375f / 3));
  CHECK(color_at(0, 3) == heat_color(0.375f * 2 / 3));

  const float infinity = std::numeric_limits<float>::infinity();
  CHECK_THROWS_AS(blend_heatmap(grey, {0, 1, 2}, 2, 2), Error);
  CHECK_THROWS_AS(blend_heatmap(grey, {0, infinity}, 1, 2), Error);
  CHECK(blend_heatmap(grey, {5, 5}, 1, 2, 1).at(0, 0)[2] == heat_color(0)[2]);
}

TEST_CASE("the colour map grows brighter all the way") {
  double last = -1;
  for (int i = 0; i <= 100; ++i) {
    const auto [r, g, b] = heat_color(float(i) / 100);
    const double luma = 0.2126 * r + 0.7152 * g + 0.0722 * b;
    CHECK(luma >= last);
    last = luma;
  }
}
