#include "apps/terminal/signals.h"

#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <string>

#include "engine/base/line_prefix.h"

namespace pursuit::apps {
namespace {

constexpr int stop_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGALRM};

sigset_t stop_signal_set() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : stop_signals) sigaddset(&set, signal);
  return set;
}

volatile std::sig_atomic_t stop_flag = 0;
volatile std::sig_atomic_t interrupted = 0;
timespec first_interrupt;
std::string message;  // of the first signal

double seconds_since_first_interrupt() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return double(now.tv_sec - first_interrupt.tv_sec) + 1e-9 * double(now.tv_nsec - first_interrupt.tv_nsec);
}

// Calls only functions that are safe inside a signal handler.
void on_signal(int signal, siginfo_t* info, void*) {
  // SIGPIPE from our own writes means that the reader of our output has ended, which must not stop training.
  if (signal == SIGPIPE && info->si_pid == getpid()) return;
  const int saved_errno = errno;
  // One key press can arrive twice within milliseconds: from the terminal and from a launcher that forwards
  // it.
  if (signal == SIGINT && interrupted && seconds_since_first_interrupt() > 0.2) _exit(128 + SIGINT);
  if (!stop_flag) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, message.data(), message.size());
  }
  if (signal == SIGINT && !interrupted) {
    clock_gettime(CLOCK_MONOTONIC, &first_interrupt);
    interrupted = 1;
  }
  stop_flag = 1;
  errno = saved_errno;
}

}  // namespace

void catch_stop_signals(std::string_view work) {
  message = "\n" + line_prefix + "stopping after this " + std::string(work) +
            "; press ctrl-C again to end at once\n";
  struct sigaction action = {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  action.sa_mask = stop_signal_set();
  struct sigaction before = {};
  for (const int signal : stop_signals) {
    // SIGHUP stays ignored under nohup.
    const bool by_nohup =
        signal == SIGHUP && sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler == SIG_IGN;
    if (!by_nohup) sigaction(signal, &action, nullptr);
  }
  pthread_sigmask(SIG_UNBLOCK, &action.sa_mask, nullptr);  // a launcher may have held them back
}

HeldStopSignals::HeldStopSignals() {
  const sigset_t set = stop_signal_set();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

HeldStopSignals::~HeldStopSignals() {
  const sigset_t set = stop_signal_set();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

bool stop_requested() { return stop_flag != 0; }
void request_stop() { stop_flag = 1; }

void stop_after(double seconds) {
  itimerval timer = {};
  timer.it_value.tv_sec = time_t(seconds);
  // At least 1, since 0 means never; 1,000,000 is refused.
  timer.it_value.tv_usec =
      std::min<suseconds_t>(suseconds_t(1e6 * (seconds - double(timer.it_value.tv_sec))) + 1, 999'999);
  setitimer(ITIMER_REAL, &timer, nullptr);
}

}  // namespace pursuit::apps
