#include "engine/program.h"

#include <fcntl.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <new>

#include "engine/text.h"

namespace pursuit {

namespace {

// A closed stream stays one that cannot be used: what is written to it fails, as it did before, instead of
// vanishing.
void take_closed_streams() {
  for (int stream = 0; stream <= 2; ++stream)
    if (fcntl(stream, F_GETFD) < 0 && errno == EBADF) open("/dev/null", stream == 0 ? O_WRONLY : O_RDONLY);
}

int failed(const std::string& what) {
  std::fprintf(stderr, "error: %s\n", printable(what).c_str());
  return 1;
}

}  // namespace

int run_main(int argc, char** argv, const std::function<int(std::vector<std::string>)>& body) {
  take_closed_streams();
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  int code = 1;
  try {
    code = body({argv + 1, argv + argc});
  } catch (const std::filesystem::filesystem_error& error) {
    failed("'" + error.path1().string() + "': " + error.code().message());
  } catch (const std::bad_alloc&) {
    failed("out of memory; use a smaller batch, model or picture");
  } catch (const std::exception& error) {
    if (!std::ferror(stdout)) failed(error.what());  // or it is of the write that is told below
  }
  errno = 0;
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    const std::string reason = errno ? std::string(": ") + std::strerror(errno) : "";
    return failed("standard output cannot be written" + reason + "; what was printed is not complete");
  }
  return code;
}

}  // namespace pursuit
