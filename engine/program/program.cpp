#include "engine/program/program.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <system_error>

#include "engine/base/line_prefix.h"
#include "engine/base/text.h"
#include "engine/distributed/control.h"
#include "engine/inspect/trace.h"

namespace pursuit {

namespace {

// Gives a closed standard stream a descriptor that cannot be used, so that writing to it still fails instead
// of going to another file.
void take_closed_streams() {
  for (int stream = 0; stream <= 2; ++stream)
    if (fcntl(stream, F_GETFD) < 0 && errno == EBADF) open("/dev/null", stream == 0 ? O_WRONLY : O_RDONLY);
}

#ifndef PURSUIT_SANITIZED
// OpenBLAS retries its buffer allocation forever under a small `ulimit -v`. So the limit is checked before
// any library starts, using system calls only.
void require_address_space(int, char**, char**) {
  constexpr rlim_t least = rlim_t(512) << 20;
  constexpr char message[] =
      "error: the limit of the address space (ulimit -v) is below 524288 KiB, which the libraries need\n";
  rlimit limit = {};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur >= least) return;
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, message, sizeof message - 1);
  _exit(1);
}
[[gnu::section(".preinit_array"), gnu::used]] void (*const before_libraries)(int, char**,
                                                                             char**) = require_address_space;
#endif

int failed(const std::string& what) {
  std::fprintf(stderr, "%serror: %s\n", line_prefix.c_str(), printable(what).c_str());
  distributed::record_failure(what);
  return 1;
}

}  // namespace

int run_main(int argc, char** argv, const std::function<int(std::vector<std::string>)>& body) {
  take_closed_streams();
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  int code = 1;
  std::string reason;
  try {
    start_trace();
    code = body({argv + 1, argv + argc});
  } catch (const std::filesystem::filesystem_error& error) {
    failed("'" + error.path1().string() + "': " + error.code().message());
  } catch (const std::bad_alloc&) {
    failed("out of memory; use a smaller batch, model or picture");
  } catch (const std::exception& error) {
    // A failed write is reported below.
    if (!std::ferror(stdout))
      failed(error.what());
    else if (const auto* of_write = dynamic_cast<const std::system_error*>(&error))
      reason = ": " + of_write->code().message();
  }
  try {
    finish_trace();
  } catch (const std::exception& error) {
    code = failed(error.what());
  }
  errno = 0;
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    if (errno) reason = std::string(": ") + std::strerror(errno);
    return failed("standard output cannot be written" + reason + "; what was printed is not complete");
  }
  return code;
}

}  // namespace pursuit
