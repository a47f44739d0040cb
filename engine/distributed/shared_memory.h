#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "engine/distributed/control.h"

namespace pursuit::distributed {

// Memory of the ranks of one machine, in which they show each other their numbers, a stretch at a time: each
// fills its own place, meets the others, and reads theirs.
class SharedMemory {
 public:
  static constexpr size_t stretch = size_t(1) << 19;  // bytes of a place
  static constexpr int most_ranks = 8;                // each reads the places of all

  // All ranks call it. Null on all of them where one cannot have it (another container, say).
  static std::unique_ptr<SharedMemory> open(ControlChannel& control);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  // This rank's place for the next meeting.
  void* mine() const { return place(rank_, met_); }
  // Until all ranks have filled their places. `check` is called every tenth of a second of waiting, and ends
  // it by an exception. Throws std::runtime_error, as Gloo does, if another rank has closed.
  void meet(const std::function<void()>& check);
  // What that rank had filled in at the last meeting; until the next one but one.
  const void* of(int rank) const { return place(rank, met_ - 1); }
  // No rank meets any more.
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
