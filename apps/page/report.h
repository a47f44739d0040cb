#pragma once
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "apps/page/charts.h"
#include "apps/terminal/table.h"
#include "data/image.h"

namespace pursuit::apps {

// A large number at the top of a report: "Top-1 accuracy", "93.1%", "10,000 test pictures".
struct Highlight {
  std::string label, value, note = {};
};

enum class Mark { none, good, bad };

struct Picture {
  data::Image image;
  std::string caption = {};
  Mark mark = Mark::none;  // coloured edge: right or wrong prediction
};

// An SVG element, of which the caller has escaped all text.
struct Drawing {
  std::string svg, caption = {};
};

struct PictureGrid {
  std::string title;
  std::vector<Picture> pictures;
  int columns = 0;                         // 0: as many as fit
  std::vector<std::string> headings = {};  // of the columns
  std::string caption = {};
};

// Builds report.html: a single file with styles, charts and pictures, without external resources. It works
// without JavaScript, in light and dark mode, in wide and narrow windows. All text is escaped. Consecutive
// charts share a row in a wide window.
class Report {
 public:
  explicit Report(std::string title, std::string subtitle = "");

  void section(const std::string& title);  // also listed in the table of contents
  void heading(const std::string& title);
  void paragraph(const std::string& text);
  void code(const std::string& text);  // preformatted: a command line or a file
  void highlights(const std::vector<Highlight>& highlights);
  void key_values(const std::vector<std::pair<std::string, std::string>>& entries);
  void table(const Table& table, const std::string& caption = "");
  void chart(const LineChart& chart);
  void chart(const BarChart& chart);
  void chart(const ConfusionChart& matrix);
  void pictures(const PictureGrid& grid);
  void drawings(const std::string& title, const std::vector<Drawing>& drawings,
                const std::string& caption = "");
  // A legend of small coloured squares with names.
  void swatches(const std::string& title,
                const std::vector<std::pair<std::array<uint8_t, 3>, std::string>>& colours);

  std::string html() const;
  // Writes html() to a file, atomically. Throws Error that names the file.
  void write(const std::string& path) const;

 private:
  std::string title_, subtitle_, body_;
  std::vector<std::string> sections_;
};

}  // namespace pursuit::apps
