#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace pursuit {

// A file that appears under its name whole or not at all: written to a temporary name in the same folder,
// flushed to the disk and renamed by commit(). Without a commit nothing remains. Errors name the file.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* bytes, size_t count);
  void commit();

 private:
  [[noreturn]] void stop(const char* what) const;

  std::string path_, temporary_;
  int file_ = -1;
};

// A regular file open for reading. Errors name the file.
class InputFile {
 public:
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  size_t size() const { return size_; }
  int64_t modified() const { return modified_; }  // ns since 1970
  int descriptor() const { return file_; }
  // Throws if the file has no such bytes.
  void read(size_t offset, void* bytes, size_t count) const;
  [[noreturn]] void reject(const std::string& what) const;  // "[where] 'path': what"

 private:
  std::string path_;
  size_t size_ = 0;
  int64_t modified_ = 0;
  int file_ = -1;
};

}  // namespace pursuit
