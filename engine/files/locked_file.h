#pragma once
#include <string>

namespace pursuit {

// Owns the descriptor of an open file or folder and its flock(2) lock, which the system releases when the
// process ends.
class LockedFile {
 public:
  LockedFile() = default;
  explicit LockedFile(int descriptor) : descriptor_(descriptor) {}
  ~LockedFile();
  LockedFile(LockedFile&& other) noexcept;
  LockedFile& operator=(LockedFile&& other) noexcept;
  int descriptor() const { return descriptor_; }

  // Locks it without waiting; false if another process holds the lock. Throws Error with the name if it cannot
  // be locked.
  bool lock_now(const char* where, const std::string& name) const;

 private:
  int descriptor_ = -1;
};

}  // namespace pursuit
