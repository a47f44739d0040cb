#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace pursuit {

// A regular file mapped read-only: pages are loaded on access and shared between
// processes. Errors name the file. If another program truncates the file or the disk
// fails, the process ends with an error line and exit code 1, instead of the default
// SIGBUS.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::string_view bytes() const { return {data_, size_}; }

 private:
  std::string path_;
  const char* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace pursuit
