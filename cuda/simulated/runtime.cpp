#include "cuda/runtime.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <vector>

#include "cuda/simulated/memory.h"
#include "cuda/simulated/stream.h"
#include "cuda/simulated/traffic.h"
#include "engine/base/error.h"

namespace simt {

namespace {
constexpr std::align_val_t alignment{256};

std::map<void*, size_t>& blocks() {
  static auto& b = *new std::map<void*, size_t>;
  return b;
}
}  // namespace

void* take_memory(size_t bytes) {
#ifdef PURSUIT_TRAFFIC
  void* p = take_counted_memory(bytes);
#else
  void* p = ::operator new(bytes, alignment);
#endif
  std::memset(p, 0xFF, bytes);
  blocks()[p] = bytes;
  return p;
}

void give_memory(void* p) {
  [[maybe_unused]] const size_t bytes = blocks().at(p);
  blocks().erase(p);
#ifdef PURSUIT_TRAFFIC
  give_counted_memory(p, bytes);
#else
  ::operator delete(p, alignment);
#endif
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

// cuda/runtime.h on the simulated GPU.
namespace pursuit::cuda {

bool available() { return true; }
std::string why_not() { return ""; }
int device_count() { return 1; }
std::string describe(int) { return "simulated GPU of the tests"; }

constexpr size_t memory_size = size_t(1) << 30;
void* allocate(int, size_t bytes) {
  simt::require_sound();
  return simt::memory_used() + bytes > memory_size ? nullptr : simt::take_memory(bytes);
}
void release(int, void* p) noexcept {
  simt::break_recording("memory was given back to the system while a graph was captured");
  simt::run_before_release();
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
  simt::forbid_recording("the host waits for a copy");
  simt::submit([=] { std::memcpy(to, from, bytes); });
  simt::work.run_until(simt::work.given());
}
void copy_to_device(void* to, const void* from, int device, size_t bytes) {
  copy_to_host(to, from, device, bytes);
}
void synchronize(int) {
  simt::forbid_recording("the host waits for the GPU");
  simt::run_all();
}

namespace {

struct Event {
  std::shared_ptr<simt::Mark> mark;  // null before the first record
};

Event* as_event(void* event) { return static_cast<Event*>(event); }
simt::Stream* as_stream(void* stream) { return static_cast<simt::Stream*>(stream); }

// Empty work is refused while a graph is captured, and is nothing otherwise.
bool is_empty(const char* what, size_t bytes) {
  if (bytes == 0) simt::forbid_recording((std::string(what) + " of 0 bytes").c_str());
  return bytes == 0;
}

void refuse_recorded(const Event* event) {
  if (event->mark && event->mark->recorded) fail("simt", "the host waits for an event of a recording");
}

}  // namespace

int current_device() { return 0; }
void* current_stream() { return &simt::work; }
void* stream(int) { return &simt::work; }
void* copy_stream(int) { return &simt::copies; }
void* rank_stream(int) { return &simt::ranks; }
void* create_event(int) { return new Event; }
void destroy_event(void* event) noexcept { delete as_event(event); }
void record_event(void* event, void* stream) { as_event(event)->mark = as_stream(stream)->record(); }
void wait_for_event(void* stream, void* event) {
  if (as_event(event)->mark) as_stream(stream)->wait_for(as_event(event)->mark);
}
void synchronize_event(void* event) {
  simt::forbid_recording("the host waits for an event");
  refuse_recorded(as_event(event));
  const std::shared_ptr<simt::Mark> mark = as_event(event)->mark;
  if (!mark) return;
  mark->stream->run_until(mark->number);
  simt::arrivals.run_until(mark->arrivals);
}
bool event_done(void* event) {
  simt::require_sound();
  refuse_recorded(as_event(event));
  return !as_event(event)->mark || as_event(event)->mark->done;
}

namespace not_empty {

void copy_on_device(void* to, const void* from, int, size_t bytes) {
  if (is_empty("a copy", bytes)) return;
  simt::submit([=] {
    const simt::CountedLaunch counted("copy");
    std::memcpy(to, from, bytes);
    simt::count_read(from, bytes);
    simt::count_written(to, bytes);
  });
}
void fill_zero(void* to, int, size_t bytes) {
  if (is_empty("a fill", bytes)) return;
  simt::submit([=] {
    const simt::CountedLaunch counted("zeros");
    std::memset(to, 0, bytes);
    simt::count_written(to, bytes);
  });
}
void start_copy_to_host(void* to, const void* from, size_t bytes, void* stream) {
  if (is_empty("a copy", bytes)) return;
  as_stream(stream)->give([=] {
    const auto* p = static_cast<const unsigned char*>(from);
    simt::arrivals.give(
        [to, values = std::vector(p, p + bytes)] { std::memcpy(to, values.data(), values.size()); });
  });
}
void start_copy_to_device(void* to, const void* from, size_t bytes, void* stream) {
  if (is_empty("a copy", bytes)) return;
  as_stream(stream)->give([=] { std::memcpy(to, from, bytes); });
}

}  // namespace not_empty

void begin_capture(int) { simt::begin_recording(); }
bool capturing(int) { return simt::recording(); }
void* end_capture(int) { return new std::shared_ptr<simt::Recording>(simt::end_recording()); }
void cancel_capture(int) noexcept { simt::cancel_recording(); }
void launch_graph(void* graph, int) { simt::launch(*static_cast<std::shared_ptr<simt::Recording>*>(graph)); }
void destroy_graph(void* graph) noexcept { delete static_cast<std::shared_ptr<simt::Recording>*>(graph); }

}  // namespace pursuit::cuda
