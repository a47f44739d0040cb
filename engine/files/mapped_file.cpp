#include "engine/files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "engine/error.h"

namespace pursuit {

MappedFile::MappedFile(const std::string& path) : path_(path) {
  // Without O_NONBLOCK a named pipe would block here for ever.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) fail("file", "'" + path + "': cannot be opened: " + std::strerror(errno));
  struct stat info;
  const bool regular = fstat(file, &info) == 0 && S_ISREG(info.st_mode);
  void* data = nullptr;
  if (regular) {
    size_ = size_t(info.st_size);
    modified_ = int64_t(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
    if (size_ > 0) data = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);  // an empty mapping fails
  }
  const int error = errno;
  close(file);
  if (!regular) fail("file", "'" + path + "': is not a regular file");
  if (data == MAP_FAILED)
    fail("file", "'" + path + "': cannot be mapped into memory: " + std::strerror(error));
  data_ = static_cast<const char*>(data);
}

MappedFile::~MappedFile() {
  if (size_ > 0) munmap(const_cast<char*>(data_), size_);
}

}  // namespace pursuit
