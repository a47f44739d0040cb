// Preloaded into a program: holds one rank at a place for a minute, so that a test can end it there.
//   HOLD_RANK=1 HOLD_AT=reduction    where it begins with its 40th write to a connection
//               HOLD_AT=forward      in the loss of the first batch after that
//               HOLD_AT=evaluation   where it has taken more losses, and reduced nothing, than a step has
//   HOLD_RANK=0 HOLD_AT=saving       while it writes a checkpoint, the second one
//   HOLD_FILE=f                      is made once it is held
// Connections are written by writev, the loss of a row takes one logf.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

bool is(const char* name, const std::string& value) {
  const char* set = std::getenv(name);
  return set && value == set;
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

void hold_at(const char* place) {
  static std::atomic<bool> held = false;
  const char *rank = std::getenv("PURSUIT_RANK"), *file = std::getenv("HOLD_FILE");
  if (!rank || !file || !is("HOLD_RANK", rank) || !is("HOLD_AT", place) || held.exchange(true)) return;
  close(creat(file, 0600));
  sleep(60);
}

constexpr int some_steps = 40;
std::atomic<int> writes = 0, losses = 0, losses_of_step = 0;  // losses since the last write

}  // namespace

extern "C" ssize_t writev(int fd, const iovec* parts, int count) {
  static const auto call = next<ssize_t(int, const iovec*, int)>("writev");
  const int since = losses.exchange(0);
  const int write = ++writes;
  // The first ones belong to the start, with draws of weights that take logarithms too.
  if (write > some_steps / 2 && write <= some_steps) losses_of_step = std::max(losses_of_step.load(), since);
  if (write == some_steps) hold_at("reduction");
  return call(fd, parts, count);
}

extern "C" float logf(float x) {
  static const auto call = next<float(float)>("logf");
  if (++losses > 2 * losses_of_step && writes > some_steps) hold_at("evaluation");
  if (writes >= some_steps) hold_at("forward");
  return call(x);
}

extern "C" int fsync(int fd) {
  static const auto call = next<int(int)>("fsync");
  static std::atomic<int> saved = 0;
  char path[4096] = {};
  const bool known = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof path - 1) > 0;
  if (known && std::strstr(path, "checkpoint") && ++saved == 2) hold_at("saving");
  return call(fd);
}
