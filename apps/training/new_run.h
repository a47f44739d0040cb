#pragma once
#include <string>

#include "apps/run/run_lock.h"

namespace pursuit::apps {

// Begins a run that is made at once, without training: creates its folder, locks it, and removes what one that
// was killed left there. Throws Error that names the command if there is a run, or if another program makes or
// trains one there.
TrainingLock begin_new_run(const std::string& command, const std::string& folder);

}  // namespace pursuit::apps
