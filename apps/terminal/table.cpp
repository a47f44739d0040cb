#include "apps/terminal/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "apps/terminal/text.h"
#include "engine/base/error.h"
#include "engine/base/text.h"

namespace pursuit::apps {
namespace {

bool is_blank(const std::string& cell) { return cell.empty() || cell == "-" || cell == "–"; }

const std::string& cell_at(const std::vector<std::string>& row, size_t column) {
  static const std::string empty;
  return column < row.size() ? row[column] : empty;
}

void check_rows(const Table& table) {
  for (const auto& row : table.rows)
    if (row.size() > table.columns.size())
      fail("table", fmt::format("a row is too long: got {} cells, need at most {} (one per column)",
                                row.size(), table.columns.size()));
}

std::string padded(const std::string& text, int width, bool to_the_right) {
  const std::string space(static_cast<size_t>(std::max(0, width - display_width(text))), ' ');
  return to_the_right ? space + text : text + space;
}

// Cell text of the whole table, headings first; `decorate(text, is_best)` gives the text of a body cell.
template <class Decorate>
std::vector<std::vector<std::string>> body_cells(const Table& table, Decorate decorate) {
  check_rows(table);
  const auto best = best_cells(table);
  std::vector<std::vector<std::string>> cells(table.rows.size());
  for (size_t r = 0; r < cells.size(); ++r)
    for (size_t c = 0; c < table.columns.size(); ++c)
      cells[r].push_back(decorate(printable(cell_at(table.rows[r], c)), c, best[r][c]));
  return cells;
}

std::vector<int> column_widths(const std::vector<std::string>& headings,
                               const std::vector<std::vector<std::string>>& cells) {
  std::vector<int> widths;
  for (size_t c = 0; c < headings.size(); ++c) {
    widths.push_back(display_width(headings[c]));
    for (const auto& row : cells) widths[c] = std::max(widths[c], display_width(row[c]));
  }
  return widths;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_unit_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '%' || c == '/' || c == ' ';
}

// The factor of a unit's SI or binary prefix; 1 if it has none ("ms", "MPixel").
double prefix_factor(std::string_view unit) {
  const size_t power =
      unit.empty() ? std::string_view::npos : std::string_view("kMGT").find(unit[0] == 'K' ? 'k' : unit[0]);
  if (power == std::string_view::npos) return 1;
  const bool binary = unit.substr(1, 1) == "i";
  const std::string_view rest = unit.substr(binary ? 2 : 1);
  if (!rest.empty() && rest[0] != ' ' && rest[0] != 'B' && rest[0] != '/') return 1;
  return std::pow(binary ? 1024.0 : 1000.0, double(power + 1));
}

}  // namespace

std::optional<double> cell_number(std::string_view cell) {
  while (!cell.empty() && cell.front() == ' ') cell.remove_prefix(1);
  while (!cell.empty() && cell.back() == ' ') cell.remove_suffix(1);
  if (cell == "nan" || cell == "-nan") return std::numeric_limits<double>::quiet_NaN();
  if (cell == "inf") return std::numeric_limits<double>::infinity();
  if (cell == "-inf") return -std::numeric_limits<double>::infinity();

  std::string text;
  for (size_t i = 0; i < cell.size(); ++i) {
    const bool separator =
        cell[i] == ',' && i > 0 && i + 1 < cell.size() && is_digit(cell[i - 1]) && is_digit(cell[i + 1]);
    if (!separator) text += cell[i];
  }
  const size_t sign = !text.empty() && (text[0] == '+' || text[0] == '-') ? 1 : 0;
  const size_t first_digit = sign + (text.substr(sign, 1) == "." ? 1 : 0);
  if (first_digit >= text.size() || !is_digit(text[first_digit])) return std::nullopt;

  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data() + (text[0] == '+' ? 1 : 0), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  if (unit.substr(0, 2) == "±" || unit.substr(0, 1) == "(") return value;
  if (unit.size() > 14 || !std::all_of(unit.begin(), unit.end(), is_unit_letter)) return std::nullopt;
  return value * prefix_factor(unit);
}

std::vector<bool> number_columns(const Table& table) {
  std::vector<bool> numbers(table.columns.size(), false);
  for (size_t c = 0; c < numbers.size(); ++c) {
    bool all = true, any = false;
    for (const auto& row : table.rows) {
      const std::string& cell = cell_at(row, c);
      if (is_blank(cell)) continue;
      any = true;
      all = all && cell_number(cell).has_value();
    }
    numbers[c] = any && all;
  }
  return numbers;
}

std::vector<std::vector<bool>> best_cells(const Table& table) {
  std::vector<std::vector<bool>> marks(table.rows.size(), std::vector<bool>(table.columns.size(), false));
  const size_t lines = table.best_of_row ? table.rows.size() : table.columns.size();
  const size_t length = table.best_of_row ? table.columns.size() : table.rows.size();
  for (size_t line = 0; line < std::min(lines, table.best.size()); ++line) {
    if (table.best[line] == Best::none) continue;
    std::optional<double> best;
    const auto value_at = [&](size_t i) {
      const auto value = table.best_of_row ? cell_number(cell_at(table.rows[line], i))
                                           : cell_number(cell_at(table.rows[i], line));
      return value && !std::isnan(*value) ? value : std::nullopt;
    };
    for (size_t i = 0; i < length; ++i)
      if (const auto value = value_at(i))
        if (!best || (table.best[line] == Best::highest ? *value > *best : *value < *best)) best = value;
    for (size_t i = 0; i < length; ++i)
      (table.best_of_row ? marks[line][i] : marks[i][line]) = best && value_at(i) == best;
  }
  return marks;
}

Table transposed(const Table& table) {
  Table out{{table.columns.at(0)}, {}, {}, !table.best_of_row};
  for (const auto& row : table.rows) out.columns.push_back(cell_at(row, 0));
  for (size_t c = 1; c < table.columns.size(); ++c) {
    out.rows.push_back({table.columns[c]});
    for (const auto& row : table.rows) out.rows.back().push_back(cell_at(row, c));
    out.best.push_back(c < table.best.size() ? table.best[c] : Best::none);
  }
  return out;
}

std::string to_text(const Table& table) {
  const auto has_mark = [&](size_t c) {
    return table.best_of_row || (c < table.best.size() && table.best[c] != Best::none);
  };
  const auto cells = body_cells(table, [&](const std::string& text, size_t c, bool is_best) {
    return has_mark(c) ? text + (is_best ? "*" : " ") : text;
  });
  std::vector<std::string> headings;
  for (size_t c = 0; c < table.columns.size(); ++c)
    headings.push_back(printable(table.columns[c]) + (has_mark(c) ? " " : ""));
  const auto widths = column_widths(headings, cells);
  const auto numbers = number_columns(table);

  std::string text;
  const auto add_line = [&](auto cell_of) {
    std::string line;
    for (size_t c = 0; c < widths.size(); ++c) line += (c > 0 ? "  " : "") + cell_of(c);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  };
  add_line([&](size_t c) { return padded(headings[c], widths[c], numbers[c]); });
  add_line([&](size_t c) { return std::string(static_cast<size_t>(widths[c]), '-'); });
  for (const auto& row : cells) add_line([&](size_t c) { return padded(row[c], widths[c], numbers[c]); });
  return text;
}

std::string to_markdown(const Table& table) {
  const auto escaped = [](const std::string& text) {
    std::string out;
    for (const char c : text) out += c == '|' ? "\\|" : std::string(1, c);
    return out;
  };
  const auto cells = body_cells(table, [&](const std::string& text, size_t, bool is_best) {
    return is_best ? "**" + escaped(text) + "**" : escaped(text);
  });
  std::vector<std::string> headings;
  for (const auto& heading : table.columns) headings.push_back(escaped(printable(heading)));
  auto widths = column_widths(headings, cells);
  for (int& width : widths) width = std::max(width, 3);
  const auto numbers = number_columns(table);

  std::string text;
  const auto add_line = [&](auto cell_of) {
    for (size_t c = 0; c < widths.size(); ++c) text += (c > 0 ? " | " : "| ") + cell_of(c);
    text += " |\n";
  };
  add_line([&](size_t c) { return padded(headings[c], widths[c], numbers[c]); });
  add_line([&](size_t c) {
    const std::string rule(static_cast<size_t>(widths[c] - 1), '-');
    return numbers[c] ? rule + ":" : rule + "-";
  });
  for (const auto& row : cells) add_line([&](size_t c) { return padded(row[c], widths[c], numbers[c]); });
  return text;
}

}  // namespace pursuit::apps
