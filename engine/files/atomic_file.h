#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace pursuit {

// A file that appears under its name whole or not at all: written to a temporary name in the same folder,
// flushed to the disk and renamed by commit(). Without a commit nothing remains. Errors name the file. The
// temporary file is new, has a name that nobody can foresee, and is locked while its writer lives.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* bytes, size_t count);
  // With `old_name` the file that was there stays under that name.
  void commit(const std::string& old_name = "");

 private:
  void keep_old(const std::string& old_name) const;
  [[noreturn]] void stop(const char* what) const;
  void open_temporary();

  std::string path_, temporary_;
  int file_ = -1;
};

// Removes the temporary files that writers who were killed have left in a folder; those of writers that live,
// and files of other users, stay. Does nothing if there is no such folder.
void remove_leftovers(const std::string& folder);

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
  std::string read_all() const;
  [[noreturn]] void reject(const std::string& what) const;  // "[where] 'path': what"

 private:
  std::string path_;
  size_t size_ = 0;
  int64_t modified_ = 0;
  int file_ = -1;
};

}  // namespace pursuit
