#include "engine/files/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "engine/base/error.h"

namespace pursuit {

namespace {

// A temporary name is the file's name, this mark, and 16 hexadecimal digits.
constexpr std::string_view temporary_mark = ".tmp-";
constexpr size_t digits = 16;

std::string unforeseeable_name(const std::string& path) {
  unsigned char random[digits / 2];
  if (getrandom(random, sizeof random, 0) != ssize_t(sizeof random))
    fail("file", std::string("the system gives no random numbers: ") + std::strerror(errno));
  std::string name = path + std::string(temporary_mark);
  for (const unsigned char byte : random) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", unsigned(byte));
    name += two;
  }
  return name;
}

bool is_temporary_name(std::string_view name) {
  if (name.size() <= temporary_mark.size() + digits) return false;
  const std::string_view tail = name.substr(name.size() - temporary_mark.size() - digits);
  return tail.starts_with(temporary_mark) &&
         tail.substr(temporary_mark.size()).find_first_not_of("0123456789abcdef") == tail.npos;
}

}  // namespace

void remove_leftovers(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (fs::directory_iterator it(folder, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    if (!is_temporary_name(it->path().filename().string())) continue;
    // NFS locks only what is open for writing.
    const int file = open(it->path().c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) continue;
    struct stat info;
    const bool ours = fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid();
    if (ours && flock(file, LOCK_EX | LOCK_NB) == 0) unlink(it->path().c_str());
    close(file);
  }
}

AtomicFile::AtomicFile(const std::string& path) : path_(path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    fail("file", "cannot write '" + path + "': it is no regular file, and would be replaced by one");
  do {
    if (file_ >= 0) close(file_);
    open_temporary();
    // Another process may have removed the file as a leftover before it was locked.
    flock(file_, LOCK_EX);
  } while (fstat(file_, &info) == 0 && info.st_nlink == 0);
}

void AtomicFile::open_temporary() {
  do {
    temporary_ = unforeseeable_name(path_);
    file_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  } while (file_ < 0 && errno == EEXIST);
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

// Uses a hard link: a complete file exists under `path_` at every moment.
void AtomicFile::keep_old(const std::string& old_name) const {
  const std::string second = unforeseeable_name(old_name);
  if (link(path_.c_str(), second.c_str()) == 0) {
    const bool renamed = rename(second.c_str(), old_name.c_str()) == 0;
    unlink(second.c_str());  // rename leaves it if both are already the same file
    if (!renamed) stop("cannot keep the old");
  } else if (access(path_.c_str(), F_OK) == 0 &&
             rename(path_.c_str(), old_name.c_str()) != 0) {  // file system without hard links
    stop("cannot keep the old");
  }
}

void AtomicFile::commit(const std::string& old_name) {
  if (fsync(file_) != 0) stop("cannot flush");
  if (!old_name.empty()) keep_old(old_name);
  if (rename(temporary_.c_str(), path_.c_str()) != 0) stop("cannot replace");
  close(file_);
  file_ = -1;
  // Some network file systems cannot flush a folder; the rename itself is already done.
  const size_t slash = path_.find_last_of('/');
  const std::string folder = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
  const int parent = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (parent < 0) return;
  fsync(parent);
  close(parent);
}

InputFile::InputFile(const std::string& path) : path_(path) {
  // Without O_NONBLOCK, opening a named pipe would block forever.
  file_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file_ < 0) reject_as("cannot be opened");
  struct stat info;
  const int failed = fstat(file_, &info) == 0 ? 0 : errno;
  if (failed || !S_ISREG(info.st_mode)) {
    close(file_);
    errno = failed;
    if (failed) reject_as("cannot be looked at");
    reject("is not a regular file");
  }
  size_ = size_t(info.st_size);
}

InputFile::~InputFile() { close(file_); }

void InputFile::reject(const std::string& what) const { fail("file", "'" + path_ + "': " + what); }

void InputFile::reject_as(const char* what) const {
  const int reason = errno;
  const std::string text = std::string(what) + ": " + std::strerror(reason);
  if (reason == ENOENT) reject(text);
  throw UnreadableFile("[file] '" + path_ + "': " + text);
}

void InputFile::read(size_t offset, void* bytes, size_t count) const {
  if (offset > size_ || count > size_ - offset)
    reject("ends at byte " + std::to_string(size_) + ", need " + std::to_string(count) + " bytes from " +
           std::to_string(offset));
  char* p = static_cast<char*>(bytes);
  while (count > 0) {
    const ssize_t done = pread(file_, p, count, off_t(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) reject_as("cannot be read");
    if (done == 0) reject("became shorter while it was read");
    p += done;
    offset += size_t(done);
    count -= size_t(done);
  }
}

std::string InputFile::read_all() const {
  std::string bytes(size_, '\0');
  read(0, bytes.data(), bytes.size());
  return bytes;
}

}  // namespace pursuit
