#pragma once
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

namespace pursuit::apps {

struct ProgressOptions {
  bool quiet = false;                  // --quiet: write nothing
  std::string unit = "images";         // what is counted per second
  double line_seconds = 10;            // plain lines: one at most this often
  int64_t line_steps = 0;              // plain lines: if not 0, one every so many steps instead
  std::FILE* stream = stderr;          // a bar if it is a terminal, plain lines otherwise
  std::function<double()> clock = {};  // seconds; steady clock if empty
};

// Shows the progress of a loop. On a terminal it redraws one line (bar, steps, rate, time left, note) at most
// ten times a second, cut to the window's width; otherwise it prints plain lines. The environment variable
// NO_COLOR turns colours off; TERM=dumb counts as no terminal. Not thread-safe.
class Progress {
 public:
  // Steps run from `first` (the resumed step, else 0) to `total` (0: unknown).
  Progress(std::string label, int64_t first, int64_t total, ProgressOptions options = {});
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Sets the number of finished steps. `items` images or tokens were processed since the last call. `note` is
  // shown at the end of the line, for example "loss 2.31".
  void update(int64_t step, int64_t items, const std::string& note = "");

  // Prints a line above the bar.
  void print(const std::string& line);

  // Shows the last state and ends the line. The destructor calls it too.
  void finish();

 private:
  std::string status() const;
  std::string bar_line(int columns) const;
  void draw_bar();
  void write_line(const std::string& line);
  void put(const std::string& text);

  std::string label_, note_;
  int64_t first_, total_, step_;
  ProgressOptions options_;
  bool is_terminal_, color_, unicode_;
  bool finished_ = false, bar_shown_ = false;
  double start_time_, update_time_, shown_time_;
  int64_t shown_step_;
  // Exponentially decaying sums with a time constant of 15 s; the rates are their quotients.
  double recent_seconds_ = 0, recent_steps_ = 0, recent_items_ = 0;
};

using Tick = std::function<void(int64_t count)>;  // called with the number of finished items
// Reports one part of the work to a bar; `before` items were finished before this part.
inline Tick ticker(Progress& bar, int64_t before, const std::string& note) {
  return [&bar, before, note, last = int64_t(0)](int64_t done) mutable {
    bar.update(before + done, done - last, note);
    last = done;
  };
}

}  // namespace pursuit::apps
