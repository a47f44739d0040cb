#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "apps/common/axis.h"
#include "apps/common/files.h"
#include "apps/common/heatmap.h"
#include "apps/common/html.h"
#include "apps/common/metrics.h"
#include "apps/common/progress.h"
#include "apps/common/report.h"
#include "apps/common/signals.h"
#include "apps/common/table.h"
#include "apps/common/tensorboard.h"
#include "apps/common/text.h"
#include "engine/error.h"
#include "engine/text.h"
#include "tests/temporary_folder.h"

using namespace pursuit::apps;
using pursuit::Error;
using pursuit::data::Image;

namespace {

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

// An environment variable that gets its old value back.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = getenv(name)) old_ = old;
    setenv(name, value, 1);
  }
  ~Variable() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

// A new pseudo-terminal, -1 if there is none to be had.
int open_terminal() {
  const int master = posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || (grantpt(master) == 0 && unlockpt(master) == 0)) return master;
  close(master);
  return -1;
}
bool has_terminals() {
  const int master = open_terminal();
  if (master >= 0) close(master);
  return master >= 0;
}

void write_plain(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// Bit by bit, not reflected tables: independent of the implementation under test.
uint32_t bitwise_crc32c(const std::string& bytes) {
  uint32_t crc = 0xFFFFFFFFu;
  for (const char c : bytes)
    for (int bit = 0; bit < 8; ++bit) {
      const uint32_t mixed = (crc ^ (static_cast<unsigned char>(c) >> bit)) & 1u;
      crc = (crc >> 1) ^ (mixed ? 0x82F63B78u : 0u);
    }
  return ~crc;
}

template <class T>
T read_number(const std::string& bytes, size_t& at) {
  REQUIRE(at + sizeof(T) <= bytes.size());
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  at += sizeof(T);
  return value;
}

std::vector<std::string> read_records(const std::string& bytes) {
  std::vector<std::string> records;
  const auto unmask = [](uint32_t masked) {
    const uint32_t rotated = masked - 0xA282EAD8u;
    return (rotated >> 17) | (rotated << 15);
  };
  for (size_t at = 0; at < bytes.size();) {
    const std::string header = bytes.substr(at, 8);
    const auto length = read_number<uint64_t>(bytes, at);
    CHECK(unmask(read_number<uint32_t>(bytes, at)) == bitwise_crc32c(header));
    REQUIRE(at + length <= bytes.size());
    records.push_back(bytes.substr(at, length));
    at += length;
    CHECK(unmask(read_number<uint32_t>(bytes, at)) == bitwise_crc32c(records.back()));
  }
  return records;
}

struct Field {
  uint64_t number = 0, integer = 0;  // integer: varints and the raw bits of fixed-width values
  std::string bytes;
};

uint64_t read_varint(const std::string& bytes, size_t& at) {
  uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    const auto byte = read_number<uint8_t>(bytes, at);
    value |= uint64_t(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  FAIL("varint does not end");
  return 0;
}

std::vector<Field> read_message(const std::string& bytes) {
  std::vector<Field> fields;
  for (size_t at = 0; at < bytes.size();) {
    const uint64_t key = read_varint(bytes, at);
    Field field{key >> 3, 0, ""};
    if ((key & 7) == 0) {
      field.integer = read_varint(bytes, at);
    } else if ((key & 7) == 1) {
      field.integer = read_number<uint64_t>(bytes, at);
    } else if ((key & 7) == 5) {
      field.integer = read_number<uint32_t>(bytes, at);
    } else {
      REQUIRE((key & 7) == 2);
      const uint64_t length = read_varint(bytes, at);
      REQUIRE(at + length <= bytes.size());
      field.bytes = bytes.substr(at, length);
      at += length;
    }
    fields.push_back(field);
  }
  return fields;
}

float float_of(uint64_t bits) {
  const auto low = static_cast<uint32_t>(bits);
  float value;
  std::memcpy(&value, &low, 4);
  return value;
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

std::string stream_text(std::FILE* stream) {
  std::fflush(stream);
  std::rewind(stream);
  std::string text;
  for (int c = std::fgetc(stream); c != EOF; c = std::fgetc(stream)) text += static_cast<char>(c);
  return text;
}

}  // namespace

TEST_CASE("atomic write replaces a file and leaves no temporary behind") {
  const TemporaryFolder folder;
  const std::string path = folder.file("a.txt");
  write_file_atomically(path, "old");
  write_file_atomically(path, std::string("new\0bytes", 9));
  CHECK(read_file(path) == std::string("new\0bytes", 9));
  CHECK(folder.entries() == 1);
}

TEST_CASE("a failed atomic write names the file and leaves the old content") {
  const TemporaryFolder folder;
  const std::string missing = folder.file("no/such/folder/a.txt");
  CHECK(contains(error_of([&] { write_file_atomically(missing, "x"); }), missing));
  CHECK(contains(error_of([&] { read_file(missing); }), missing));

  const std::string target = folder.file("target");
  std::filesystem::create_directory(target);
  write_plain(target + "/inside", "kept");
  CHECK(contains(error_of([&] { write_file_atomically(target, "x"); }), target));
  CHECK(read_file(target + "/inside") == "kept");
  CHECK(folder.entries() == 1);
}

TEST_CASE("metrics are written and read back, values that are not finite as null") {
  const TemporaryFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  MetricsWriter writer(path);
  writer.write(1, {{"loss", 2.5}, {"lr", 0.001}});
  writer.write(2, {{"loss", nan_value}});
  CHECK(read_file(path) == "{\"step\":1,\"loss\":2.5,\"lr\":0.001}\n{\"step\":2,\"loss\":null}\n");
  const auto lines = read_metrics(path);
  REQUIRE(lines.size() == 2);
  const auto loss = metric_series(lines, "loss");
  REQUIRE(loss.size() == 2);
  CHECK(loss[0] == std::pair(1.0, 2.5));
  CHECK(std::isnan(loss[1].second));
  CHECK(metric_series(lines, "lr").size() == 1);
  CHECK_THROWS_AS(writer.write(3, {{"step", 3}}), Error);
}

TEST_CASE("resuming drops later steps and a torn last line, a new run starts empty") {
  const TemporaryFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  write_plain(path,
              "{\"step\":1,\"x\":0.1}\n{\"step\":2,\"x\":0.2}\n{\"step\":3,\"x\":0.3}\n{\"step\":4,\"x");
  CHECK(read_metrics(path).size() == 3);
  {
    MetricsWriter writer(path, [](int64_t step, const auto&) { return step <= 2; });
    writer.write(3, {{"x", 9}});
  }
  CHECK(read_file(path) == "{\"step\":1,\"x\":0.1}\n{\"step\":2,\"x\":0.2}\n{\"step\":3,\"x\":9}\n");
  const MetricsWriter fresh(path);
  CHECK(read_file(path).empty());
}

TEST_CASE("a damaged line in the middle of metrics.jsonl is an error that names file and line") {
  const TemporaryFolder folder;
  const std::string path = folder.file("metrics.jsonl");
  write_plain(path, "{\"step\":1}\n{\"step\":\n{\"step\":3}\n");
  const std::string error = error_of([&] { read_metrics(path); });
  CHECK(contains(error, path));
  CHECK(contains(error, "line 2"));
}

TEST_CASE("crc32c agrees with the published check value and a bitwise reference") {
  CHECK(crc32c("123456789") == 0xE3069283u);
  CHECK(bitwise_crc32c("123456789") == 0xE3069283u);
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    CHECK(crc32c(bytes) == bitwise_crc32c(bytes));
    bytes += static_cast<char>(i * 37);
  }
}

TEST_CASE("event files are framed as TFRecords and hold the scalars") {
  const TemporaryFolder folder;
  TensorboardWriter writer(folder.file("tb"), 6);
  const TensorboardWriter other(folder.file("tb"));
  CHECK(other.path() != writer.path());
  CHECK(contains(writer.path(), "/events.out.tfevents."));
  writer.scalars(7, {{"train/loss", 0.1}, {"lr", -3e-4}});
  writer.scalars(int64_t(1) << 40, {{std::string(200, 't'), std::numeric_limits<double>::infinity()}});

  const auto records = read_records(read_file(writer.path()));
  REQUIRE(records.size() == 4);
  const auto version = read_message(records[0]);
  REQUIRE(version.size() == 3);
  CHECK(version[0].number == 1);
  CHECK(version[2].number == 3);
  CHECK(version[2].bytes == "brain.Event:2");

  const auto restart = read_message(records[1]);
  CHECK(restart[1].integer == 7);
  CHECK(restart[2].number == 7);
  CHECK(read_message(restart[2].bytes)[0].integer == 1);

  const auto event = read_message(records[2]);
  CHECK(event[1].number == 2);
  CHECK(event[1].integer == 7);
  CHECK(event[2].number == 5);
  const auto summary = read_message(event[2].bytes);
  REQUIRE(summary.size() == 2);
  const auto loss = read_message(summary[0].bytes), rate = read_message(summary[1].bytes);
  CHECK(loss[0].bytes == "train/loss");
  CHECK(float_of(loss[1].integer) == 0.1f);
  CHECK(rate[0].bytes == "lr");
  CHECK(float_of(rate[1].integer) == -3e-4f);

  const auto late = read_message(records[3]);
  CHECK(late[1].integer == uint64_t(1) << 40);
  const auto value = read_message(read_message(late[2].bytes)[0].bytes);
  CHECK(value[0].bytes == std::string(200, 't'));
  CHECK(std::isinf(float_of(value[1].integer)));
}

TEST_CASE("display width counts columns of UTF-8 text") {
  CHECK(display_width("abc") == 3);
  CHECK(display_width("λ²±") == 3);
  CHECK(display_width("e\u0301") == 1);
  CHECK(display_width("注意") == 4);
  CHECK(display_width("\xFF\xC0\x80") == 3);
  CHECK(cut_to_width("注意x", 3) == "注");
  CHECK(cut_to_width("abc", 0) == "");
  CHECK(pursuit::utf8_length("\xED\xA0\x80") == 0);
  CHECK(pursuit::utf8_length("\xF0\x9F\x98\x80") == 4);
}

TEST_CASE("durations and counts for people") {
  CHECK(format_duration(42) == "0:42");
  CHECK(format_duration(3600 * 3 + 7 * 60 + 9) == "3:07:09");
  CHECK(format_duration(2 * 86400 + 61) == "2d 00:01:01");
  CHECK(format_duration(nan_value) == "?");
  CHECK(format_count(0) == "0");
  CHECK(format_count(8.12) == "8.1");
  CHECK(format_count(12345) == "12.3k");
  CHECK(format_count(4.56e6) == "4.56M");
}

TEST_CASE("numbers in cells") {
  CHECK(cell_number("81.2") == 81.2);
  CHECK(cell_number("-3") == -3);
  CHECK(cell_number("+0.5") == 0.5);
  CHECK(cell_number("1,234") == 1234);
  CHECK(cell_number("94.1 %") == 94.1);
  CHECK(cell_number("81.2 ± 0.3") == 81.2);
  CHECK(cell_number("13.1k images/s") == doctest::Approx(13100));
  CHECK(cell_number("900 k") < cell_number("1.2 M"));
  CHECK(cell_number("2 GiB") == 2147483648.0);
  CHECK(cell_number("5 ms") == 5);
  CHECK(std::isnan(cell_number("nan").value()));
  for (const char* text : {"", "-", "vit", "2026-11-21", "1.2.3", "info", "inf inity", "+-1", "."})
    CHECK_MESSAGE(!cell_number(text), std::string(text));
}

TEST_CASE("text tables line up with UTF-8 names, numbers right, best marked") {
  const Table table{
      {"model", "top-1"}, {{"λ-softmax", "9.5"}, {"注意", "81.2"}, {"x"}}, {Best::none, Best::highest}};
  CHECK(to_text(table) ==
        "model      top-1\n"
        "---------  ------\n"
        "λ-softmax    9.5\n"
        "注意        81.2*\n"
        "x\n");
  CHECK_THROWS_AS(to_text(Table{{"a"}, {{"1", "2"}}}), Error);
  CHECK(to_text(Table{{"a"}, {}}) == "a\n-\n");
}

TEST_CASE("Markdown tables escape bars and mark the best") {
  const Table table{{"model", "loss"}, {{"a|b\nc", "0.5"}, {"d", "0.25"}}, {Best::none, Best::lowest}};
  CHECK(to_markdown(table) ==
        "| model   |     loss |\n"
        "| ------- | -------: |\n"
        "| a\\|b\\nc |      0.5 |\n"
        "| d       | **0.25** |\n");
}

TEST_CASE("best values: ties all count, nan never") {
  const Table table{{"a"}, {{"nan"}, {"2"}, {"2.0"}, {"1"}}, {Best::highest}};
  const auto best = best_cells(table);
  CHECK(!best[0][0]);
  CHECK(best[1][0]);
  CHECK(best[2][0]);
  CHECK(!best[3][0]);
}

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
  report.chart(ConfusionMatrix{hostile, {hostile, "b"}, {8, 2, 0, 0}, hostile});
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

TEST_CASE("long series are thinned but keep their spikes") {
  LineChart chart{"t", "x", "y", {{"s", {}}}};
  for (int i = 0; i < 20000; ++i) chart.series[0].points.emplace_back(i, i == 12345 ? 777.5 : 1.0);
  const std::string html = to_html(chart);
  CHECK(html.size() < 60000);
  CHECK(contains(html, "12345:777.5"));
}

TEST_CASE("a large confusion matrix becomes a picture with its worst pairs") {
  ConfusionMatrix matrix{"m", {}, std::vector<int64_t>(40 * 40)};
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
  CHECK_THROWS_AS(to_html(ConfusionMatrix{"t", {"a", "b"}, {1, 2, 3}}), Error);
  CHECK_THROWS_AS(to_html(ConfusionMatrix{"t", {}, {}}), Error);
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

TEST_CASE("progress writes plain lines to a stream that is no terminal") {
  std::FILE* stream = std::tmpfile();
  REQUIRE(stream);
  double now = 0;
  ProgressOptions options;
  options.stream = stream;
  options.clock = [&] { return now; };
  options.line_seconds = 10;
  {
    Progress progress("train", 0, 100, options);
    for (int step = 1; step <= 25; ++step) {
      now += 1;
      progress.update(step, 64, "loss 2.5");
    }
    progress.print("saved");
  }
  CHECK(stream_text(stream) ==
        "train  10/100  64.0 images/s  1:30 left  loss 2.5\n"
        "train  20/100  64.0 images/s  1:20 left  loss 2.5\n"
        "saved\n"
        "train  25/100  64.0 images/s  in 0:25  loss 2.5\n");
  std::fclose(stream);
}

TEST_CASE("progress counts steps when asked, resumes, and is silent when quiet") {
  std::FILE* stream = std::tmpfile();
  REQUIRE(stream);
  double now = 0;
  ProgressOptions options;
  options.stream = stream;
  options.clock = [&] { return now; };
  options.line_steps = 50;
  options.unit = "tokens";
  const auto run = [&] {
    Progress progress("lm", 40, 160, options);
    for (int step = 41; step <= 101; ++step) {
      now += 0.5;
      progress.update(step, 1000);
    }
    progress.finish();
    progress.finish();
  };
  options.quiet = true;
  run();
  CHECK(stream_text(stream).empty());
  options.quiet = false;
  run();
  CHECK(stream_text(stream) ==
        "lm  50/160  2000 tokens/s  0:55 left\n"
        "lm  100/160  2000 tokens/s  0:30 left\n"
        "lm  101/160  2000 tokens/s  in 0:31\n");
  std::fclose(stream);
}

TEST_CASE("progress draws one line that fits on a terminal" * doctest::test_suite("terminal") *
          doctest::skip(!has_terminals())) {
  const int master = open_terminal();
  REQUIRE(master >= 0);
  std::FILE* stream = std::fopen(ptsname(master), "w");
  REQUIRE(stream);
  const winsize size = {24, 72, 0, 0};
  REQUIRE(ioctl(master, TIOCSWINSZ, &size) == 0);
  const Variable term("TERM", "xterm"), no_color("NO_COLOR", "1"), locale("LC_ALL", "C");
  double now = 0;
  ProgressOptions options;
  options.stream = stream;
  options.clock = [&] { return now; };
  {
    Progress progress("train", 0, 200, options);
    for (int step = 1; step <= 100; ++step) {
      now += 0.01;
      progress.update(step, 8, "loss 0.125");
    }
  }
  // A busy machine hands the text over in pieces.
  std::string text;
  pollfd waiting = {master, POLLIN, 0};
  while (!text.ends_with("\r\n") && poll(&waiting, 1, 10000) == 1) {
    char piece[4096];
    const ssize_t got = read(master, piece, sizeof piece);
    if (got <= 0) break;
    text.append(piece, static_cast<size_t>(got));
  }
  std::fclose(stream);
  close(master);
  REQUIRE(text.ends_with("\r\n"));

  // One redraw for the first step, ten a second after that, one at the end.
  const size_t redraws = count(text, "\r") - 1;
  CHECK(redraws >= 9);
  CHECK(redraws <= 12);
  CHECK(count(text, "\n") == 1);
  CHECK(text.substr(text.size() - 2) == "\r\n");
  CHECK(count(text, "\033[") == redraws);
  CHECK(contains(text, "#-"));
  CHECK(contains(text, " 50%  100/200  800 images/s  in 0:01  loss 0.125"));
  for (size_t at = text.find('\r'); at < text.size() - 2; at = text.find('\r', at + 1)) {
    const std::string line = text.substr(at + 1, text.find('\033', at) - at - 1);
    CHECK(display_width(line) <= 71);
  }
}

TEST_CASE("signals set a flag, and a second ctrl-C ends the process") {
  const auto exit_code = [](auto child) {
    const pid_t process = fork();
    REQUIRE(process >= 0);
    if (process == 0) {
      if (!std::freopen("/dev/null", "w", stderr)) _exit(99);
      catch_stop_signals();
      _exit(child());
    }
    int status = 0;
    REQUIRE(waitpid(process, &status, 0) == process);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  CHECK(exit_code([] { return stop_requested() ? 1 : 0; }) == 0);
  CHECK(exit_code([] {
          raise(SIGTERM);
          raise(SIGTERM);
          return stop_requested() ? 10 : 0;
        }) == 10);
  CHECK(exit_code([] {
          raise(SIGINT);
          raise(SIGINT);  // the same key press, forwarded by a launcher
          return stop_requested() ? 10 : 0;
        }) == 10);
  CHECK(exit_code([] {
          raise(SIGINT);
          usleep(300000);
          raise(SIGINT);
          return 10;
        }) == 130);
}
