#include "apps/page/report.h"

#include <fmt/format.h>

#include "apps/page/html.h"
#include "apps/page/report_style.h"
#include "apps/run/files.h"

namespace pursuit::apps {

Report::Report(std::string title, std::string subtitle)
    : title_(std::move(title)), subtitle_(std::move(subtitle)) {}

void Report::section(const std::string& title) {
  if (!sections_.empty()) body_ += "</section>\n";
  sections_.push_back(title);
  body_ += fmt::format("<section id=\"section-{}\"><h2>{}</h2>\n", sections_.size(), escape_html(title));
}

void Report::heading(const std::string& title) {
  body_ += "<h3 class=\"heading\">" + escape_html(title) + "</h3>\n";
}

void Report::paragraph(const std::string& text) { body_ += "<p>" + escape_html(text) + "</p>\n"; }

void Report::code(const std::string& text) {
  body_ += "<pre class=\"card\">" + escape_html(text) + "</pre>\n";
}

void Report::highlights(const std::vector<Highlight>& highlights) {
  body_ += "<div class=\"highlights\">";
  for (const auto& h : highlights)
    body_ += fmt::format("<div class=\"card\"><span>{}</span><b>{}</b><small>{}</small></div>",
                         escape_html(h.label), escape_html(h.value), escape_html(h.note));
  body_ += "</div>\n";
}

void Report::key_values(const std::vector<std::pair<std::string, std::string>>& entries) {
  body_ += "<dl class=\"card\">";
  for (const auto& [key, value] : entries)
    body_ += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escape_html(key), escape_html(value));
  body_ += "</dl>\n";
}

void Report::table(const Table& table, const std::string& caption) {
  const auto numbers = number_columns(table);
  const auto best = best_cells(table);
  // In a table that compares columns row by row, cells are mostly numbers, so they are right-aligned.
  const auto cell_class = [&](size_t column) {
    return numbers[column] ? " class=\"number\"" : table.best_of_row && column > 0 ? " class=\"right\"" : "";
  };
  std::string html = "<figure class=\"card\"><div class=\"scroll\"><table><thead><tr>";
  for (size_t c = 0; c < table.columns.size(); ++c)
    html += fmt::format("<th scope=\"col\"{}>{}</th>", cell_class(c), escape_html(table.columns[c]));
  html += "</tr></thead>\n<tbody>";
  for (size_t r = 0; r < table.rows.size(); ++r) {
    html += "<tr>";
    for (size_t c = 0; c < table.columns.size(); ++c) {
      const std::string text = c < table.rows[r].size() ? escape_html(table.rows[r][c]) : "";
      html += fmt::format("<td{}>{}</td>", cell_class(c),
                          best[r][c] ? "<b class=\"best\">" + text + "</b>" : text);
    }
    html += "</tr>\n";
  }
  html += "</tbody></table></div>";
  if (!caption.empty()) html += "<figcaption>" + escape_html(caption) + "</figcaption>";
  body_ += html + "</figure>\n";
}

void Report::chart(const LineChart& chart) { body_ += to_html(chart); }
void Report::chart(const BarChart& chart) { body_ += to_html(chart); }
void Report::chart(const ConfusionChart& matrix) { body_ += to_html(matrix); }

void Report::pictures(const PictureGrid& grid) {
  const std::string columns =
      grid.columns > 0
          ? fmt::format(" style=\"grid-template-columns:repeat({},minmax(56px,1fr))\"", grid.columns)
          : "";
  std::string body = "<div class=\"scroll\"><div class=\"pictures\"" + columns + ">";
  for (const std::string& heading : grid.headings)
    body += "<div class=\"column\">" + escape_html(heading) + "</div>";
  for (const auto& picture : grid.pictures) {
    const char* mark = picture.mark == Mark::good ? " good" : picture.mark == Mark::bad ? " bad" : "";
    // Small pictures (CIFAR's 32 x 32) keep their pixels visible; larger ones are scaled smoothly.
    const char* scaling = picture.image.width < 100 ? " class=\"small\"" : "";
    body +=
        fmt::format("<figure class=\"picture{}\"><img{} alt=\"{}\" width=\"{}\" height=\"{}\" src=\"{}\"/>",
                    mark, scaling, escape_html(picture.caption), picture.image.width, picture.image.height,
                    png_data_uri(picture.image));
    if (!picture.caption.empty()) body += "<figcaption>" + escape_html(picture.caption) + "</figcaption>";
    body += "</figure>\n";
  }
  body_ += chart_figure(grid.title, "", {}, body + "</div></div>\n", grid.caption, true);
}

void Report::drawings(const std::string& title, const std::vector<Drawing>& drawings,
                      const std::string& caption) {
  std::string body = "<div class=\"drawings\">";
  for (const auto& drawing : drawings) {
    body += "<figure class=\"picture\">" + drawing.svg;
    if (!drawing.caption.empty()) body += "<figcaption>" + escape_html(drawing.caption) + "</figcaption>";
    body += "</figure>\n";
  }
  body_ += chart_figure(title, "", {}, body + "</div>\n", caption, true);
}

void Report::swatches(const std::string& title,
                      const std::vector<std::pair<std::array<uint8_t, 3>, std::string>>& colours) {
  std::string body = "<div class=\"swatches\">";
  for (const auto& [rgb, name] : colours)
    body += fmt::format("<span><i style=\"background:#{:02x}{:02x}{:02x}\"></i>{}</span>\n", rgb[0], rgb[1],
                        rgb[2], escape_html(name));
  body_ += chart_figure(title, "", {}, body + "</div>\n", "", true);
}

std::string Report::html() const {
  std::string contents;
  for (size_t i = 0; i < sections_.size(); ++i)
    contents += fmt::format("<a href=\"#section-{}\">{}</a>", i + 1, escape_html(sections_[i]));
  // The content security policy makes the browser refuse external resources.
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<meta name=\"color-scheme\" content=\"light dark\"/>\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
      "style-src 'unsafe-inline'; script-src 'unsafe-inline'\"/>\n"
      "<title>{0}</title>\n<style>{1}</style></head>\n<body><header><h1>{0}</h1><p>{2}</p>{3}</header>\n"
      "<main>\n{4}{5}</main>\n<script>{6}</script></body></html>\n",
      escape_html(title_), report_css, escape_html(subtitle_),
      sections_.size() > 1 ? "<nav>" + contents + "</nav>" : "", body_,
      sections_.empty() ? "" : "</section>\n", report_script);
}

void Report::write(const std::string& path) const { write_file_atomically(path, html()); }

}  // namespace pursuit::apps
