#include "engine/files/mapped_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <mutex>

#include "engine/base/text.h"
#include "engine/files/atomic_file.h"

namespace pursuit {

namespace {

// Read by the signal handler: a list that only grows, whose entries are empty or a mapping.
struct Mapping {
  std::atomic<const char*> begin = nullptr;
  size_t size = 0;
  std::string message;
  Mapping* next = nullptr;
};
std::atomic<Mapping*> mappings = nullptr;
std::mutex mappings_guard;

// Calls async-signal-safe functions only.
void on_bus_error(int, siginfo_t* info, void*) {
  const char* at = static_cast<const char*>(info->si_addr);
  for (const Mapping* m = mappings; m; m = m->next) {
    const char* begin = m->begin;
    if (!begin || at < begin || at >= begin + m->size) continue;
    const bool behind_bar = isatty(STDERR_FILENO);
    [[maybe_unused]] ssize_t written = behind_bar ? write(STDERR_FILENO, "\n", 1) : 0;
    written = write(STDERR_FILENO, m->message.data(), m->message.size());
    _exit(1);
  }
  std::signal(SIGBUS, SIG_DFL);  // not one of ours: retry the access, which ends the process
}

void remember(const char* begin, size_t size, const std::string& path) {
  const std::lock_guard lock(mappings_guard);
  if (!mappings) {
    struct sigaction action = {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGBUS, &action, nullptr);
  }
  Mapping* m = mappings;
  while (m && m->begin) m = m->next;
  if (!m) {
    m = new Mapping;
    m->next = mappings;
    mappings = m;
  }
  m->size = size;
  m->message =
      "error: [file] '" + printable(path) + "' became shorter, or its disk failed, while it was in use\n";
  m->begin = begin;
}

void forget(const char* begin) {
  for (Mapping* m = mappings; m; m = m->next)
    if (m->begin == begin) m->begin = nullptr;
}

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const InputFile file(path);
  if (file.size() == 0) return;  // mapping an empty file fails
  void* data = mmap(nullptr, file.size(), PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (data == MAP_FAILED) file.reject_as("cannot be mapped into memory");
  data_ = static_cast<const char*>(data);
  size_ = file.size();
  remember(data_, size_, path_);
}

MappedFile::~MappedFile() {
  if (size_ == 0) return;
  forget(data_);
  munmap(const_cast<char*>(data_), size_);
}

}  // namespace pursuit
