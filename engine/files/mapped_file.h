#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace pursuit {

// A regular file mapped into memory, read only: its pages are read when they are touched and shared by all
// processes that map it. Errors name the file. Where another program makes the file shorter, or the disk
// fails, there are no bytes to go on with: the process then ends with an error line and exit code 1 (what the
// system would do is SIGBUS).
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::string_view bytes() const { return {data_, size_}; }
  int64_t modified() const { return modified_; }  // ns since 1970

 private:
  std::string path_;
  const char* data_ = nullptr;
  size_t size_ = 0;
  int64_t modified_ = 0;
};

}  // namespace pursuit
