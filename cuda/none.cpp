#include "cuda/runtime.h"
#include "cuda/solver.h"
#include "engine/base/error.h"

namespace pursuit::cuda {

namespace {
[[noreturn]] void absent() {
  fail("cuda", "this build has no CUDA; configure with -DPURSUIT_CUDA=ON where nvcc is installed");
}
}  // namespace

bool available() { return false; }
std::string why_not() { return "built without CUDA"; }
int device_count() { return 0; }
std::string describe(int) { absent(); }
void* allocate(int, size_t) { absent(); }
void release(int, void*) noexcept {}
void* allocate_async(int, size_t) { absent(); }
void release_async(int, void*) noexcept {}
void trim_async(int) { absent(); }
void memory_info(int, size_t&, size_t&) { absent(); }
void* allocate_pinned(size_t) { absent(); }
void release_pinned(void*) noexcept {}
void copy_to_host(void*, const void*, int, size_t) { absent(); }
void copy_to_device(void*, const void*, int, size_t) { absent(); }
void synchronize(int) { absent(); }
int current_device() { absent(); }
void* current_stream() { absent(); }
void* stream(int) { absent(); }
void* copy_stream(int) { absent(); }
void* rank_stream(int) { absent(); }
void* create_event(int) { absent(); }
void destroy_event(void*) noexcept {}
void record_event(void*, void*) { absent(); }
void wait_for_event(void*, void*) { absent(); }
void synchronize_event(void*) { absent(); }
bool event_done(void*) { absent(); }
namespace not_empty {
void copy_on_device(void*, const void*, int, size_t) { absent(); }
void fill_zero(void*, int, size_t) { absent(); }
void start_copy_to_host(void*, const void*, size_t, void*) { absent(); }
void start_copy_to_device(void*, const void*, size_t, void*) { absent(); }
}  // namespace not_empty
void begin_capture(int) { absent(); }
bool capturing(int) { return false; }
void* end_capture(int) { absent(); }
void cancel_capture(int) noexcept {}
void launch_graph(void*, int) { absent(); }
void destroy_graph(void*) noexcept {}
std::vector<int32_t> svd(const Svd&) { absent(); }

}  // namespace pursuit::cuda
