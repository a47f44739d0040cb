// Preloaded into a program: holds one rank at a place for a minute, so that a test can end it there.
//   HOLD_RANK=1 HOLD_AT=writev     in the reduction that it begins with its 40th write to a connection
//   HOLD_RANK=0 HOLD_AT=fsync      while it saves a checkpoint, the second one
//   HOLD_FILE=f                    is made once it is held
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

bool is(const char* name, const std::string& value) {
  const char* set = std::getenv(name);
  return set && value == set;
}

void hold_at(const char* call, std::atomic<int>& calls, int which) {
  const char *rank = std::getenv("PURSUIT_RANK"), *file = std::getenv("HOLD_FILE");
  if (!rank || !file || !is("HOLD_RANK", rank) || !is("HOLD_AT", call) || ++calls != which) return;
  close(creat(file, 0600));
  sleep(60);
}

}  // namespace

extern "C" ssize_t writev(int fd, const iovec* parts, int count) {
  static const auto next = reinterpret_cast<ssize_t (*)(int, const iovec*, int)>(dlsym(RTLD_NEXT, "writev"));
  static std::atomic<int> calls = 0;
  hold_at("writev", calls, 40);
  return next(fd, parts, count);
}

extern "C" int fsync(int fd) {
  static const auto next = reinterpret_cast<int (*)(int)>(dlsym(RTLD_NEXT, "fsync"));
  static std::atomic<int> calls = 0;
  char path[4096] = {};
  const bool known = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof path - 1) > 0;
  if (known && std::strstr(path, "checkpoint")) hold_at("fsync", calls, 2);
  return next(fd);
}
