#include "engine/distributed/shared_memory.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/distributed/protocol.h"
#include "engine/distributed/secret.h"

namespace pursuit::distributed {

namespace {

constexpr size_t token_bytes = 16;
constexpr long a_tenth_of_a_second = 100'000'000;  // ns

// std::atomic's own wait works only within one process.
void wait_while(std::atomic<uint32_t>& word, uint32_t value) {
  const timespec limit{0, a_tenth_of_a_second};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &limit, nullptr, 0);
}
void wake_all(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

int open_of_rank_0(const std::string& pid, const std::string& number) {
  return ::open(("/proc/" + pid + "/fd/" + number).c_str(), O_RDWR | O_CLOEXEC);
}

}  // namespace

// One cache line per rank, so that waiting for one does not slow down the others.
struct SharedMemory::Header {
  struct alignas(64) Rank {
    std::atomic<uint32_t> met;  // how often it has written its slot
  };
  char token[token_bytes];
  std::atomic<uint32_t> closed;
  Rank ranks[most_ranks];
};

size_t SharedMemory::bytes(int size) { return sizeof(Header) + 2 * size_t(size) * stretch; }

// memory_ stays null if the file does not have the right size.
SharedMemory::SharedMemory(int rank, int size, int file) : rank_(rank), size_(size) {
  struct stat known {};
  if (fstat(file, &known) != 0 || size_t(known.st_size) != bytes(size)) return;
  void* at = mmap(nullptr, bytes(size), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) return;
  memory_ = static_cast<std::byte*>(at);
  header_ = reinterpret_cast<Header*>(memory_);
}

SharedMemory::~SharedMemory() {
  if (!memory_) return;
  close();
  munmap(memory_, bytes(size_));
}

// Rank 0's memory has no name: the others open it by its descriptor in rank 0's process, and it is freed with
// the last process, however that ends. A random token verifies that it is the right memory.
std::unique_ptr<SharedMemory> SharedMemory::open(ControlChannel& control) {
  const int rank = control.rank(), size = control.size();
  const char* wanted = std::getenv("PURSUIT_SHARED_MEMORY");
  if (size > most_ranks) return nullptr;
  int file = -1;
  std::string token;
  if (rank == 0) {
    if (!wanted || std::string(wanted) != "off") file = memfd_create("pursuit-ranks", MFD_CLOEXEC);
    if (file >= 0 && ftruncate(file, off_t(bytes(size))) != 0) ::close(std::exchange(file, -1));
    token = random_bytes(token_bytes);
    control.set("memory", pack({std::to_string(getpid()), std::to_string(file), token}));
  } else {
    const std::vector<std::string> place = unpack(control.get("memory"));
    if (place.size() != 3) fail("ranks", "rank 0 describes its memory wrongly");
    token = place[2];
    if (place[1] != "-1") file = open_of_rank_0(place[0], place[1]);
  }
  std::unique_ptr<SharedMemory> memory(file < 0 ? nullptr : new SharedMemory(rank, size, file));
  const auto tell = [&](bool ready) { control.set("memory " + std::to_string(rank), ready ? "1" : "0"); };
  if (rank == 0) {
    if (memory && memory->memory_) std::memcpy(memory->header_->token, token.data(), token_bytes);
    tell(memory && memory->memory_);
  } else {
    control.get("memory 0");  // the token has been written
    tell(memory && memory->memory_ && token.size() == token_bytes &&
         std::memcmp(memory->header_->token, token.data(), token_bytes) == 0);
  }
  bool all = true;
  for (int other = 0; other < size; ++other) all &= control.get("memory " + std::to_string(other)) == "1";
  if (file >= 0) ::close(file);  // all have opened it
  return all ? std::move(memory) : nullptr;
}

void* SharedMemory::place(int rank, uint32_t meeting) const {
  return memory_ + sizeof(Header) + (2 * size_t(rank) + meeting % 2) * stretch;
}

// A rank writes its slot for meeting m + 2 after it has read all slots of meeting m: it has then been at
// meeting m + 1, which the others reach only after reading those of m.
void SharedMemory::meet(const std::function<void()>& check) {
  const uint32_t meeting = ++met_;
  std::atomic<uint32_t>& own = header_->ranks[rank_].met;
  own.store(meeting, std::memory_order_release);
  wake_all(own);
  for (int other = 0; other < size_; ++other) {
    std::atomic<uint32_t>& its = header_->ranks[other].met;
    // The counters wrap around, and differ by at most one.
    for (uint32_t now; int32_t((now = its.load(std::memory_order_acquire)) - meeting) < 0;) {
      if (header_->closed.load()) throw std::runtime_error("another rank has left");
      check();
      wait_while(its, now);
    }
  }
}

void SharedMemory::close() {
  header_->closed.store(1);
  for (int rank = 0; rank < size_; ++rank) wake_all(header_->ranks[rank].met);
}

}  // namespace pursuit::distributed
