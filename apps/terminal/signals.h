#pragma once

namespace pursuit::apps {

// From now on SIGINT (ctrl-C), SIGTERM, SIGHUP (a terminal that is closed, unless nohup has it ignored) and
// SIGPIPE from another process only set a flag that the training loop reads between steps, so that it can
// save a checkpoint and end cleanly. A second ctrl-C ends the process at once (exit code 130).
void catch_stop_signals();

// True once one of them has arrived, or request_stop() was called, from any thread.
bool stop_requested();
void request_stop();

}  // namespace pursuit::apps
