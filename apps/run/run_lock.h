#pragma once
#include <string>

#include "engine/files/locked_file.h"

// Locks against two programs using one run's folder. They are flock(2) locks, which the system releases when
// their process ends.
namespace pursuit::apps {

// Held by the program that trains a run. FOLDER/training.lock names its process.
class TrainingLock {
 public:
  // Throws Error that names the process and host that hold the lock, and since when.
  explicit TrainingLock(const std::string& folder);

 private:
  LockedFile file_;
};

// Throws the same Error if a run is being trained in the folder. Locks and creates nothing.
void check_not_in_training(const std::string& folder);

// Held while a file of a run's folder is read, extended and rewritten. The constructor waits for the lock and
// removes temporary files of killed writers.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder);

 private:
  LockedFile folder_;
};

}  // namespace pursuit::apps
