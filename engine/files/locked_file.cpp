#include "engine/files/locked_file.h"

#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "engine/base/error.h"

namespace pursuit {

LockedFile::~LockedFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

LockedFile::LockedFile(LockedFile&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

LockedFile& LockedFile::operator=(LockedFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

bool LockedFile::lock_now(const char* where, const std::string& name) const {
  if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return true;
  if (errno != EWOULDBLOCK) fail(where, name + " cannot be locked: " + std::strerror(errno));
  return false;
}

}  // namespace pursuit
