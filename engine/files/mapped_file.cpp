#include "engine/files/mapped_file.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "engine/files/atomic_file.h"

namespace pursuit {

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const InputFile file(path);
  modified_ = file.modified();
  if (file.size() == 0) return;  // an empty mapping fails
  void* data = mmap(nullptr, file.size(), PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (data == MAP_FAILED) file.reject(std::string("cannot be mapped into memory: ") + std::strerror(errno));
  data_ = static_cast<const char*>(data);
  size_ = file.size();
}

MappedFile::~MappedFile() {
  if (size_ > 0) munmap(const_cast<char*>(data_), size_);
}

}  // namespace pursuit
