#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/base/error.h"

namespace pursuit {

// A file written atomically: to a temporary name in the same folder, flushed to disk and renamed by commit().
// Without commit() nothing remains. Errors name the file. The temporary file is new, has an unpredictable
// name, and is locked while its writer lives.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* bytes, size_t count);
  // With `old_name`, the previous file is kept under that name.
  void commit(const std::string& old_name = "");

 private:
  void keep_old(const std::string& old_name) const;
  [[noreturn]] void stop(const char* what) const;
  void open_temporary();

  std::string path_, temporary_;
  int file_ = -1;
};

// Removes temporary files left in a folder by killed writers; files of live writers and other users stay. A
// no-op if the folder does not exist.
void remove_leftovers(const std::string& folder);

// A file that the system cannot open or read, though it may be sound: the drive is away, too many files are open. A
// missing file is an Error of no special kind.
struct UnreadableFile : Error {
  using Error::Error;
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
  int descriptor() const { return file_; }
  // Throws Error if the range is beyond the end of the file, UnreadableFile if the system cannot read it.
  void read(size_t offset, void* bytes, size_t count) const;
  std::string read_all() const;
  [[noreturn]] void reject(const std::string& what) const;  // "[where] 'path': what"
  [[noreturn]] void reject_as(const char* what) const;      // the same with the reason in errno

 private:
  std::string path_;
  size_t size_ = 0;
  int file_ = -1;
};

}  // namespace pursuit
