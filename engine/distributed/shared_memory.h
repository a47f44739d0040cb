#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "engine/distributed/control.h"

namespace pursuit::distributed {

// Shared memory of the ranks of one machine, used to exchange numbers in chunks: each rank writes its own
// slot, waits for the others, and reads theirs.
class SharedMemory {
 public:
  static constexpr size_t stretch = size_t(1) << 19;  // bytes per slot
  static constexpr int most_ranks = 8;                // each reads the slots of all

  // All ranks call it. Returns null on all of them if one cannot map it (it is in another container, say).
  static std::unique_ptr<SharedMemory> open(ControlChannel& control);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  // This rank's slot for the next meeting.
  void* mine() const { return place(rank_, met_); }
  // Waits until all ranks have written their slots. `check` is called every tenth of a second while waiting,
  // and may throw to end it. Throws std::runtime_error, as Gloo does, if another rank has closed.
  void meet(const std::function<void()>& check);
  // The slot of that rank as of the last meeting; valid until the next but one.
  const void* of(int rank) const { return place(rank, met_ - 1); }
  // Tells the other ranks that this one has left.
  void close();

 private:
  struct Header;
  SharedMemory(int rank, int size, int file);
  static size_t bytes(int size);
  void* place(int rank, uint32_t meeting) const;

  const int rank_, size_;
  std::byte* memory_ = nullptr;
  Header* header_ = nullptr;
  uint32_t met_ = 0;
};

}  // namespace pursuit::distributed
