#include "apps/terminal/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "apps/terminal/text.h"
#include "engine/base/text.h"

namespace pursuit::apps {
namespace {

constexpr double redraw_seconds = 0.1;
constexpr double rate_time_constant = 15;

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool has_unicode_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view value = environment(name);
    if (!value.empty())
      return value.find("UTF-8") != value.npos || value.find("utf8") != value.npos ||
             value.find("UTF8") != value.npos;
  }
  return false;
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int terminal_columns(std::FILE* stream) {
  winsize size = {};
  return ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

Progress::Progress(std::string label, int64_t first, int64_t total, ProgressOptions options)
    : label_(printable(label)), first_(first), total_(total), step_(first), options_(std::move(options)) {
  if (!options_.clock) options_.clock = steady_seconds;
  is_terminal_ = isatty(fileno(options_.stream)) && environment("TERM") != "dumb";
  color_ = is_terminal_ && environment("NO_COLOR").empty();
  unicode_ = has_unicode_locale();
  start_time_ = update_time_ = shown_time_ = options_.clock();
  shown_step_ = first_;
}

Progress::~Progress() { finish(); }

void Progress::update(int64_t step, int64_t items, const std::string& note) {
  const double now = options_.clock();
  const double elapsed = now - update_time_, fade = std::exp(-elapsed / rate_time_constant);
  recent_seconds_ = recent_seconds_ * fade + elapsed;
  recent_steps_ = recent_steps_ * fade + double(step - step_);
  recent_items_ = recent_items_ * fade + double(items);
  step_ = step;
  note_ = printable(note);
  update_time_ = now;
  if (options_.quiet || finished_) return;

  if (is_terminal_) {
    if (!bar_shown_ || now - shown_time_ >= redraw_seconds) draw_bar();
  } else if (options_.line_steps > 0 ? step / options_.line_steps > shown_step_ / options_.line_steps
                                     : now - shown_time_ >= options_.line_seconds) {
    write_line(status());
  }
}

void Progress::print(const std::string& line) {
  if (options_.quiet) return;
  put((bar_shown_ ? "\r\033[K" : "") + printable(line) + "\n");
  if (bar_shown_) draw_bar();
}

void Progress::finish() {
  if (std::exchange(finished_, true) || options_.quiet || step_ == first_) return;
  if (is_terminal_) {
    draw_bar();
    put("\n");
    bar_shown_ = false;
  } else if (shown_step_ != step_) {
    write_line(status());
  }
}

std::string Progress::status() const {
  std::string text = total_ > 0 ? fmt::format("{}/{}", step_, total_) : fmt::format("{}", step_);
  if (recent_seconds_ > 0)
    text += fmt::format("  {} {}/s", format_count(recent_items_ / recent_seconds_), options_.unit);
  if (finished_) {
    text += "  in " + format_duration(update_time_ - start_time_);
  } else if (total_ > step_ && recent_steps_ > 0) {
    text += "  " + format_duration(double(total_ - step_) * recent_seconds_ / recent_steps_) + " left";
  }
  return note_.empty() ? text : text + "  " + note_;
}

std::string Progress::bar_line(int columns) const {
  const std::string text = status();
  if (total_ <= 0) return cut_to_width(label_ + "  " + text, columns);
  const double done = std::clamp(double(step_) / double(total_), 0.0, 1.0);
  const std::string percent = fmt::format("{:3.0f}%", std::floor(done * 100));
  const int room = columns - display_width(label_ + "    " + percent + "  " + text);
  const int length = std::min(room, 30);
  if (length < 5) return cut_to_width(label_ + "  " + percent + "  " + text, columns);

  const int filled = static_cast<int>(done * length);
  std::string full, rest;
  for (int i = 0; i < length; ++i) (i < filled ? full : rest) += unicode_ ? "━" : i < filled ? "#" : "-";
  // Without colour the finished and the remaining part need different characters.
  if (unicode_ && !color_) {
    rest.clear();
    for (int i = filled; i < length; ++i) rest += "─";
  }
  const std::string bar = color_ ? "\033[36m" + full + "\033[90m" + rest + "\033[0m" : full + rest;
  return label_ + "  " + bar + "  " + percent + "  " + text;
}

void Progress::draw_bar() {
  // The last column is not used, because some terminals wrap after it.
  put("\r" + bar_line(terminal_columns(options_.stream) - 1) + "\033[K");
  shown_time_ = options_.clock();
  shown_step_ = step_;
  bar_shown_ = true;
}

void Progress::write_line(const std::string& line) {
  put(label_ + "  " + line + "\n");
  shown_time_ = options_.clock();
  shown_step_ = step_;
}

// A closed stderr must not end a training run, so failures are ignored.
void Progress::put(const std::string& text) {
  std::fputs(text.c_str(), options_.stream);
  std::fflush(options_.stream);
}

}  // namespace pursuit::apps
