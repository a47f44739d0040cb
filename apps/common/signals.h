#pragma once

namespace pursuit::apps {

// From now on SIGINT (ctrl-C) and SIGTERM only set a flag that the training loop reads between steps, so that
// it can save a checkpoint and end cleanly. A second ctrl-C ends the process at once (exit code 130).
void catch_stop_signals();

// True once SIGINT or SIGTERM has arrived.
bool stop_requested();

}  // namespace pursuit::apps
