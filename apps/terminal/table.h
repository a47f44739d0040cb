#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pursuit::apps {

// Which value of a column is the best one.
enum class Best { none, highest, lowest };

// A table of text cells. Rows may be shorter than `columns` (the rest is empty), never longer.
struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
  std::vector<Best> best = {};  // per column; missing entries mean Best::none
  bool best_of_row = false;     // per row instead: the columns compete
};

// The number that a cell starts with: "81.2", "-3", "1,234", "94.1 %", "81.2 ± 0.3", "812 images/s", "nan".
// The prefixes k, M, G, T and Ki, Mi, Gi, Ti scale it ("5.5 M", "13.1k images/s", "3.2 GiB"); units do not,
// so a column whose best value is marked needs one unit. Empty for text and for what only begins with digits
// (dates, versions).
std::optional<double> cell_number(std::string_view cell);

// True for columns in which every cell that is not empty or "-" is a number, and at least one is.
std::vector<bool> number_columns(const Table& table);

// best_cells(t)[row][column]: true where the cell holds the best value of its column, or row (ties: all of
// them).
std::vector<std::vector<bool>> best_cells(const Table& table);

// Rows become columns: the first cells of the rows are the headings of the columns.
Table transposed(const Table& table);

// Aligned plain text: numbers to the right, a rule below the headings, the best values marked with '*'.
// Aligned by display width, so UTF-8 names line up. Ends with a newline.
std::string to_text(const Table& table);

// GitHub Markdown, the best values bold; '|' and line breaks in cells are escaped.
std::string to_markdown(const Table& table);

}  // namespace pursuit::apps
