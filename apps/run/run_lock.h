#pragma once
#include <string>

// Two programs on one run's folder. Both locks are the system's (flock): they end with the process that holds
// them, however it ends.
namespace pursuit::apps {

// A descriptor that is closed with its owner, and its lock with it; not passed on to other programs.
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

// Held by the program that trains a run. FOLDER/training.lock says which one that is.
class TrainingLock {
 public:
  // Throws Error that says which process of which host trains there, and since when.
  explicit TrainingLock(const std::string& folder);

 private:
  LockedFile file_;
};

// Throws likewise if a run is trained in the folder now. Nothing is locked or made.
void check_not_in_training(const std::string& folder);

// Held while a file of a run's folder is read, added to and written again; waits for others. Removes the
// temporary files of those that were killed meanwhile.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder);

 private:
  LockedFile folder_;
};

}  // namespace pursuit::apps
