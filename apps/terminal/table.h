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

// The number at the start of a cell: "81.2", "-3", "1,234", "94.1 %", "81.2 ± 0.3", "812 images/s", "nan".
// The prefixes k, M, G, T and Ki, Mi, Gi, Ti scale it ("5.5 M", "13.1k images/s", "3.2 GiB"). Units are
// ignored, so all cells of a column must have the same. Empty for text, dates and versions.
std::optional<double> cell_number(std::string_view cell);

// True for columns with at least one number in which all other cells are numbers, empty or "-".
std::vector<bool> number_columns(const Table& table);

// best_cells(t)[row][column] is true if the cell has the best value of its column (or row); ties are all
// true.
std::vector<std::vector<bool>> best_cells(const Table& table);

// Exchanges rows and columns; the first cells of the rows become the headings.
Table transposed(const Table& table);

// Plain text, aligned by display width: numbers to the right, a rule below the headings, best values marked
// with '*'. Ends with a newline.
std::string to_text(const Table& table);

// GitHub Markdown with the best values in bold; '|' and line breaks in cells are escaped.
std::string to_markdown(const Table& table);

}  // namespace pursuit::apps
