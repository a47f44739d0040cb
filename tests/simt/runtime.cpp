#include "cuda/runtime.h"

#include <cstring>
#include <map>
#include <new>

#include "tests/simt/memory.h"

namespace simt {

namespace {
constexpr std::align_val_t alignment{256};

std::map<void*, size_t>& blocks() {
  static auto& b = *new std::map<void*, size_t>;
  return b;
}
}  // namespace

void* take_memory(size_t bytes) {
  void* p = ::operator new(bytes, alignment);
  std::memset(p, 0xFF, bytes);
  blocks()[p] = bytes;
  return p;
}

void give_memory(void* p) {
  blocks().erase(p);
  ::operator delete(p, alignment);
}

size_t memory_used() {
  size_t sum = 0;
  for (const auto& [p, bytes] : blocks()) sum += bytes;
  return sum;
}

Snapshot save_memory() {
  Snapshot s;
  for (const auto& [p, bytes] : blocks()) {
    const auto* from = static_cast<const unsigned char*>(p);
    s.emplace_back(from, from + bytes);
  }
  return s;
}

void restore_memory(const Snapshot& s) {
  size_t i = 0;
  for (const auto& [p, bytes] : blocks()) std::memcpy(p, s[i++].data(), bytes);
}

bool memory_equals(const Snapshot& s) {
  size_t i = 0;
  for (const auto& [p, bytes] : blocks())
    if (std::memcmp(p, s[i++].data(), bytes) != 0) return false;
  return true;
}

}  // namespace simt

// cuda/runtime.h on the simulated GPU: everything is done at once.
namespace pursuit::cuda {

bool available() { return true; }
std::string why_not() { return ""; }
int device_count() { return 1; }
std::string describe(int) { return "simulated GPU of the tests"; }

void* allocate(int, size_t bytes) { return simt::take_memory(bytes); }
void release(int, void* p) noexcept { simt::give_memory(p); }
void memory_info(int, size_t& free, size_t& total) {
  total = size_t(1) << 30;
  free = total - simt::memory_used();
}

void copy_to_host(void* to, const void* from, int, size_t bytes) { std::memcpy(to, from, bytes); }
void copy_to_device(void* to, const void* from, int, size_t bytes) { std::memcpy(to, from, bytes); }
void copy_on_device(void* to, const void* from, int, size_t bytes) { std::memcpy(to, from, bytes); }
void fill_zero(void* to, int, size_t bytes) { std::memset(to, 0, bytes); }
void synchronize(int) {}
int current_device() { return 0; }
void* current_stream() { return nullptr; }
void set_current_stream(void*) {}

}  // namespace pursuit::cuda
