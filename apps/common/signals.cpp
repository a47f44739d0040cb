#include "apps/common/signals.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>

namespace pursuit::apps {
namespace {

volatile std::sig_atomic_t stop_flag = 0;
volatile std::sig_atomic_t interrupted = 0;
timespec first_interrupt;

double seconds_since_first_interrupt() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return double(now.tv_sec - first_interrupt.tv_sec) + 1e-9 * double(now.tv_nsec - first_interrupt.tv_nsec);
}

// Calls only functions that are safe inside a signal handler.
void on_signal(int signal) {
  const int saved_errno = errno;
  // One key press can arrive twice within milliseconds: from the terminal and from a launcher that forwards
  // it.
  if (signal == SIGINT && interrupted && seconds_since_first_interrupt() > 0.2) _exit(128 + SIGINT);
  if (!stop_flag) {
    constexpr char message[] = "\nstopping after this step; press ctrl-C again to end at once\n";
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, message, sizeof message - 1);
  }
  if (signal == SIGINT && !interrupted) {
    clock_gettime(CLOCK_MONOTONIC, &first_interrupt);
    interrupted = 1;
  }
  stop_flag = 1;
  errno = saved_errno;
}

}  // namespace

void catch_stop_signals() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaddset(&action.sa_mask, SIGINT);
  sigaddset(&action.sa_mask, SIGTERM);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool stop_requested() { return stop_flag != 0; }

}  // namespace pursuit::apps
