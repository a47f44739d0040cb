#pragma once
#include <string>

// Locks against two programs using one run's folder. They are flock(2) locks, which the system releases when
// their process ends.
namespace pursuit::apps {

// Owns a file descriptor and its lock; the descriptor is not inherited by other programs.
class LockedFile {
 public:
  LockedFile() = default;
  explicit LockedFile(int descriptor) : descriptor_(descriptor) {}
  ~LockedFile();
  LockedFile(LockedFile&& other) noexcept;
  LockedFile& operator=(LockedFile&& other) noexcept;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

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
