#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>

#include "apps/page/html.h"
#include "apps/terminal/table.h"
#include "apps/terminal/text.h"
#include "engine/base/error.h"
#include "engine/base/text.h"

using namespace pursuit::apps;
using pursuit::Error;

namespace {

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

}  // namespace

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
