#include "cuda/runtime.h"
#include "engine/error.h"

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
void memory_info(int, size_t&, size_t&) { absent(); }
void copy_to_host(void*, const void*, int, size_t) { absent(); }
void copy_to_device(void*, const void*, int, size_t) { absent(); }
void copy_on_device(void*, const void*, int, size_t) { absent(); }
void fill_zero(void*, int, size_t) { absent(); }
void synchronize(int) { absent(); }
int current_device() { absent(); }
void* current_stream() { return nullptr; }
void set_current_stream(void*) { absent(); }

}  // namespace pursuit::cuda
