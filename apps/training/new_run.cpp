#include "apps/training/new_run.h"

#include <filesystem>

#include "apps/run/run_folder.h"
#include "apps/training/checkpoint.h"
#include "engine/base/error.h"

namespace pursuit::apps {

TrainingLock begin_new_run(const std::string& command, const std::string& folder) {
  std::filesystem::create_directories(folder);
  TrainingLock lock(folder);
  if (holds_run(folder)) fail(command, folder + ": there is a run already; choose another folder for --out");
  remove_old_run(folder);
  return lock;
}

}  // namespace pursuit::apps
