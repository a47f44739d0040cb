#include "apps/run/run_lock.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "engine/base/error.h"
#include "engine/files/atomic_file.h"

namespace pursuit::apps {

namespace {

std::string lock_path(const std::string& folder) {
  return (std::filesystem::path(folder) / "training.lock").string();
}

std::string this_process() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return fmt::format("process {} on {} since {:%F %T} UTC", getpid(), host, fmt::gmtime(std::time(nullptr)));
}

// Locks the file or throws Error that says who holds it.
void lock_now(const LockedFile& file, const std::string& folder) {
  if (file.lock_now("train", folder)) return;
  char holder[512];
  const ssize_t size = pread(file.descriptor(), holder, sizeof holder, 0);
  const std::string who = size > 0 ? std::string(holder, size_t(size)) : "another process";
  fail("train", folder + " is being trained by " + who.substr(0, who.find('\n')) +
                    "; stop that one first, or choose another --out");
}

}  // namespace

TrainingLock::TrainingLock(const std::string& folder)
    : file_(open(lock_path(folder).c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666)) {
  if (file_.descriptor() < 0) fail("train", "cannot open " + lock_path(folder) + ": " + std::strerror(errno));
  lock_now(file_, folder);
  const std::string text = this_process() + "\n";
  if (ftruncate(file_.descriptor(), 0) != 0 ||
      pwrite(file_.descriptor(), text.data(), text.size(), 0) != ssize_t(text.size()))
    fail("train", "cannot write " + lock_path(folder) + ": " + std::strerror(errno));
}

void check_not_in_training(const std::string& folder) {
  const LockedFile file(open(lock_path(folder).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (file.descriptor() >= 0) lock_now(file, folder);
}

FolderLock::FolderLock(const std::string& folder)
    : folder_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  int failed = folder_.descriptor() < 0 ? errno : 0;
  while (failed == 0 && flock(folder_.descriptor(), LOCK_EX) != 0) failed = errno == EINTR ? 0 : errno;
  if (failed == ENOENT || failed == ENOTDIR)
    fail("run", folder + ": there is no such folder; give the folder of a run");
  if (failed) fail("run", folder + " cannot be locked: " + std::strerror(failed));
  remove_leftovers(folder);
}

}  // namespace pursuit::apps
