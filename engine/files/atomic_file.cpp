#include "engine/files/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "engine/error.h"

namespace pursuit {

AtomicFile::AtomicFile(const std::string& path)
    : path_(path), temporary_(path + ".tmp." + std::to_string(getpid())) {
  file_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_ < 0) stop("cannot create");
}

AtomicFile::~AtomicFile() {
  if (file_ < 0) return;
  close(file_);
  unlink(temporary_.c_str());
}

void AtomicFile::stop(const char* what) const {
  fail("file", std::string(what) + " '" + path_ + "': " + std::strerror(errno) +
                   "; check that its folder exists, may be written to and has space");
}

void AtomicFile::write(const void* bytes, size_t count) {
  const char* p = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t done = ::write(file_, p, count);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) stop("cannot write");
    p += done;
    count -= size_t(done);
  }
}

void AtomicFile::commit() {
  if (fsync(file_) != 0) stop("cannot flush");
  if (rename(temporary_.c_str(), path_.c_str()) != 0) stop("cannot replace");
  close(file_);
  file_ = -1;
  // Some network file systems cannot flush a folder; the rename itself has already happened.
  const size_t slash = path_.find_last_of('/');
  const std::string folder = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
  const int parent = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (parent < 0) return;
  fsync(parent);
  close(parent);
}

InputFile::InputFile(const std::string& path) : path_(path) {
  // Without O_NONBLOCK a named pipe would block here for ever.
  file_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file_ < 0) reject(std::string("cannot be opened: ") + std::strerror(errno));
  struct stat info;
  if (fstat(file_, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(file_);
    reject("is not a regular file");
  }
  size_ = size_t(info.st_size);
  modified_ = int64_t(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
}

InputFile::~InputFile() { close(file_); }

void InputFile::reject(const std::string& what) const { fail("file", "'" + path_ + "': " + what); }

void InputFile::read(size_t offset, void* bytes, size_t count) const {
  if (offset > size_ || count > size_ - offset)
    reject("ends at byte " + std::to_string(size_) + ", need " + std::to_string(count) + " bytes from " +
           std::to_string(offset));
  char* p = static_cast<char*>(bytes);
  while (count > 0) {
    const ssize_t done = pread(file_, p, count, off_t(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) reject(std::string("cannot be read: ") + std::strerror(errno));
    if (done == 0) reject("became shorter while it was read");
    p += done;
    offset += size_t(done);
    count -= size_t(done);
  }
}

}  // namespace pursuit
