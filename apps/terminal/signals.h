#pragma once
#include <string_view>

namespace pursuit::apps {

// Installs handlers for SIGINT (ctrl-C), SIGTERM, SIGHUP (closed terminal; stays ignored under nohup) and
// SIGPIPE sent by another process. They set a flag that the training loop reads between steps, so that it can
// save a checkpoint and end. A second ctrl-C ends the process at once (exit code 130). The message of the
// first signal says that the program stops after this `work`.
void catch_stop_signals(std::string_view work = "step");

// Holds these signals back, in this process and those that it starts, until catch_stop_signals() is called
// (in each of them) or, in this process, the object goes.
class HeldStopSignals {
 public:
  HeldStopSignals();
  ~HeldStopSignals();
  HeldStopSignals(const HeldStopSignals&) = delete;
  HeldStopSignals& operator=(const HeldStopSignals&) = delete;
};

// True after one of these signals, or after request_stop(), which any thread may call.
bool stop_requested();
void request_stop();
// Requests a stop after this time, once catch_stop_signals() was called.
void stop_after(double seconds);

}  // namespace pursuit::apps
