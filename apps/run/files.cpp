#include "apps/run/files.h"

#include "engine/files/atomic_file.h"

namespace pursuit::apps {

void write_file_atomically(const std::string& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes.data(), bytes.size());
  file.commit();
}

std::string read_file(const std::string& path) { return InputFile(path).read_all(); }

}  // namespace pursuit::apps
