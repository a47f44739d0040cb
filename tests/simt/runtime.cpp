#include "cuda/runtime.h"

#include <cstring>
#include <map>
#include <new>

#include "engine/error.h"
#include "engine/gemm.h"
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
void* current_stream() { return nullptr; }
void set_current_stream(void*) {}

namespace {
template <class T>
void multiply(bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha, const void* a, int64_t lda,
              int64_t stride_a, const void* b, int64_t ldb, int64_t stride_b, float beta, void* c,
              int64_t ldc, int64_t stride_c, int64_t batch) {
  for (int64_t i = 0; i < batch; ++i)
    pursuit::gemm(ta, tb, m, n, k, alpha, static_cast<const T*>(a) + i * stride_a, lda,
                  static_cast<const T*>(b) + i * stride_b, ldb, beta, static_cast<T*>(c) + i * stride_c, ldc);
}
}  // namespace

void gemm(Gemm type, bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha, const void* a,
          int64_t lda, int64_t stride_a, const void* b, int64_t ldb, int64_t stride_b, float beta, void* c,
          int64_t ldc, int64_t stride_c, int64_t batch) {
  const auto f = type == Gemm::f32 ? multiply<float> : multiply<bf16>;
  f(ta, tb, m, n, k, alpha, a, lda, stride_a, b, ldb, stride_b, beta, c, ldc, stride_c, batch);
}

}  // namespace pursuit::cuda
