#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "apps/terminal/progress.h"
#include "apps/terminal/signals.h"
#include "apps/terminal/text.h"
#include "tests/environment_variable.h"
#include "tests/needs.h"

using namespace pursuit::apps;

namespace {

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

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

std::string stream_text(std::FILE* stream) {
  std::fflush(stream);
  std::rewind(stream);
  std::string text;
  for (int c = std::fgetc(stream); c != EOF; c = std::fgetc(stream)) text += static_cast<char>(c);
  return text;
}

}  // namespace

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

TEST_CASE("progress draws one line that fits on a terminal" * NEEDS("terminal", !has_terminals())) {
  const int master = open_terminal();
  REQUIRE(master >= 0);
  std::FILE* stream = std::fopen(ptsname(master), "w");
  REQUIRE(stream);
  const winsize size = {24, 72, 0, 0};
  REQUIRE(ioctl(master, TIOCSWINSZ, &size) == 0);
  const EnvironmentVariable term("TERM", "xterm"), no_color("NO_COLOR", "1"), locale("LC_ALL", "C");
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
