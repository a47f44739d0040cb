#include "apps/common/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "engine/error.h"

namespace pursuit::apps {
namespace {

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags, mode_t mode = 0)
      : number_(open(path.c_str(), flags | O_CLOEXEC, mode)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  bool is_open() const { return number_ >= 0; }
  int number() const { return number_; }

 private:
  int number_;
};

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

void write_file_atomically(const std::string& path, std::string_view bytes) {
  const auto stop = [&](const std::string& what, const std::string& advice) {
    fail("write file", what + " '" + path + "': " + std::strerror(errno) + "; " + advice);
  };
  const std::string temporary = path + ".tmp." + std::to_string(getpid());
  {
    Descriptor file(temporary, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (!file.is_open()) stop("cannot create", "check that the folder exists and may be written to");
    if (!write_all(file.number(), bytes) || fsync(file.number()) != 0) {
      const int reason = errno;
      unlink(temporary.c_str());
      errno = reason;
      stop("cannot write", "check the free space on the disk");
    }
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    const int reason = errno;
    unlink(temporary.c_str());
    errno = reason;
    stop("cannot replace", "check that it is not a folder");
  }
  const std::string folder = std::filesystem::path(path).parent_path().string();
  // Some network file systems cannot flush a folder; the rename itself has already happened.
  if (const Descriptor parent(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY); parent.is_open())
    fsync(parent.number());
}

std::string read_file(const std::string& path) {
  const auto stop = [&] { fail("read file", "cannot read '" + path + "': " + std::strerror(errno)); };
  const Descriptor file(path, O_RDONLY);
  if (!file.is_open()) stop();
  std::string bytes;
  char block[1 << 16];
  while (true) {
    const ssize_t got = read(file.number(), block, sizeof block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) stop();
    if (got == 0) return bytes;
    bytes.append(block, static_cast<size_t>(got));
  }
}

}  // namespace pursuit::apps
