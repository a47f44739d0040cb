#pragma once
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "engine/base/error.h"

namespace pursuit::bench {

// A folder under $TMPDIR or /tmp, which is removed in the end with all that is in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::error_code missing;
    const std::filesystem::path parent = std::filesystem::temp_directory_path(missing);
    if (missing) fail("bench", "the folder for temporary files, TMPDIR or /tmp, is not there");
    std::string name = (parent / "pursuit-bench-XXXXXX").string();
    if (!mkdtemp(name.data()))
      fail("bench", "no folder can be made in " + parent.string() + ": " + std::strerror(errno));
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace pursuit::bench
