#include "cuda/runtime.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <new>
#include <vector>

#include "engine/error.h"
#include "tests/simt/memory.h"
#include "tests/simt/stream.h"

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

namespace {

using Work = std::function<void()>;
using Recording = std::vector<Work>;

std::unique_ptr<Recording> recording;  // of the graph that is being captured
std::string broken;                    // what was done meanwhile that a real one would not survive

struct Stream {
  std::deque<Work> waiting;
  size_t done = 0;
  void run_until(size_t number) {
    for (; done < number; ++done) {
      waiting.front()();
      waiting.pop_front();
    }
  }
  size_t given() const { return done + waiting.size(); }
};
Stream work, copies;

// How many of the copies it stands for.
struct Event {
  size_t number = 0;
};

void forbid_capture(const char* what) {
  if (recording) pursuit::fail("simt", std::string(what) + " while a graph is captured");
}

}  // namespace

void submit(Work w) {
  if (recording)
    recording->push_back(std::move(w));
  else
    w();
}

}  // namespace simt

// cuda/runtime.h on the simulated GPU.
namespace pursuit::cuda {

bool available() { return true; }
std::string why_not() { return ""; }
int device_count() { return 1; }
std::string describe(int) { return "simulated GPU of the tests"; }

constexpr size_t memory_size = size_t(1) << 30;
void* allocate(int, size_t bytes) {
  return simt::memory_used() + bytes > memory_size ? nullptr : simt::take_memory(bytes);
}
void release(int, void* p) noexcept {
  if (simt::recording) simt::broken = "memory was given back to the system while a graph was captured";
  simt::give_memory(p);
}
void* allocate_async(int device, size_t bytes) { return allocate(device, bytes); }
void release_async(int device, void* p) noexcept { release(device, p); }
void trim_async(int) {}
void memory_info(int, size_t& free, size_t& total) {
  total = memory_size;
  free = total - simt::memory_used();
}

void* allocate_pinned(size_t bytes) { return std::malloc(bytes); }
void release_pinned(void* p) noexcept { std::free(p); }

void copy_to_host(void* to, const void* from, int, size_t bytes) {
  simt::forbid_capture("the host waits for a copy");
  std::memcpy(to, from, bytes);
}
void copy_to_device(void* to, const void* from, int, size_t bytes) {
  simt::forbid_capture("the host waits for a copy");
  std::memcpy(to, from, bytes);
}
void copy_on_device(void* to, const void* from, int, size_t bytes) {
  simt::submit([=] { std::memcpy(to, from, bytes); });
}
void fill_zero(void* to, int, size_t bytes) {
  simt::submit([=] { std::memset(to, 0, bytes); });
}
void synchronize(int) {
  simt::forbid_capture("the host waits for the GPU");
  simt::copies.run_until(simt::copies.given());
}

int current_device() { return 0; }
void* current_stream() { return &simt::work; }
void* stream(int) { return &simt::work; }
void* copy_stream(int) { return &simt::copies; }
void* create_event(int) { return new simt::Event; }
void destroy_event(void* event) noexcept { delete static_cast<simt::Event*>(event); }
void record_event(void* event, void*) {
  simt::forbid_capture("an event is recorded");
  static_cast<simt::Event*>(event)->number = simt::copies.given();
}
void wait_for_event(void* stream, void* event) {
  simt::forbid_capture("a stream waits for an event");
  if (stream == &simt::work) synchronize_event(event);
}
void synchronize_event(void* event) {
  simt::forbid_capture("the host waits for an event");
  simt::copies.run_until(static_cast<simt::Event*>(event)->number);
}
void start_copy_to_host(void* to, const void* from, size_t bytes, void*) {
  simt::submit([=] {
    const auto* p = static_cast<const unsigned char*>(from);
    simt::copies.waiting.push_back(
        [to, values = std::vector(p, p + bytes)] { std::memcpy(to, values.data(), values.size()); });
  });
}
void start_copy_to_device(void* to, const void* from, size_t bytes, void* stream) {
  const auto copy = [=] { std::memcpy(to, from, bytes); };
  if (stream == &simt::copies)
    simt::copies.waiting.push_back(copy);
  else
    simt::submit(copy);
}

void begin_capture(int) {
  simt::forbid_capture("another capture begins");
  simt::recording = std::make_unique<simt::Recording>();
  simt::broken.clear();
}
bool capturing(int) { return simt::recording != nullptr; }

void* end_capture(int) {
  const std::unique_ptr<simt::Recording> done = std::move(simt::recording);
  if (!simt::broken.empty()) fail("simt", simt::broken);
  return new simt::Recording(std::move(*done));
}
void cancel_capture(int) noexcept { simt::recording.reset(); }
void launch_graph(void* graph, int) {
  simt::forbid_capture("a graph is launched");
  for (const simt::Work& w : *static_cast<simt::Recording*>(graph)) w();
}
void destroy_graph(void* graph) noexcept { delete static_cast<simt::Recording*>(graph); }

}  // namespace pursuit::cuda
