#ifdef PURSUIT_TRAFFIC
#include <atomic>

#include "cuda/simulated/traffic.h"

// gcc inserts calls to these functions at every load and store of sources compiled with -fsanitize=thread.
// The programs are linked without the thread sanitizer's own definitions.

#define PURSUIT_ACCESS(size)                                               \
  void __tsan_read##size(void* p) { simt::count_read(p, size); }           \
  void __tsan_write##size(void* p) { simt::count_written(p, size); }       \
  void __tsan_unaligned_read##size(void* p) { simt::count_read(p, size); } \
  void __tsan_unaligned_write##size(void* p) { simt::count_written(p, size); }

// Only host code uses atomics; they are not counted.
#define PURSUIT_ATOMIC(bits, T)                                                                            \
  T __tsan_atomic##bits##_load(const T* p, int) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }           \
  void __tsan_atomic##bits##_store(T* p, T v, int) { __atomic_store_n(p, v, __ATOMIC_SEQ_CST); }           \
  T __tsan_atomic##bits##_exchange(T* p, T v, int) { return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST); } \
  T __tsan_atomic##bits##_fetch_add(T* p, T v, int) { return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST); } \
  T __tsan_atomic##bits##_fetch_sub(T* p, T v, int) { return __atomic_fetch_sub(p, v, __ATOMIC_SEQ_CST); } \
  bool __tsan_atomic##bits##_compare_exchange_strong(T* p, T* expected, T v, int, int) {                   \
    return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);         \
  }                                                                                                        \
  bool __tsan_atomic##bits##_compare_exchange_weak(T* p, T* expected, T v, int, int) {                     \
    return __atomic_compare_exchange_n(p, expected, v, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);          \
  }

extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_read_range(void* p, size_t bytes) { simt::count_read(p, bytes); }
void __tsan_write_range(void* p, size_t bytes) { simt::count_written(p, bytes); }
void __tsan_read1(void* p) { simt::count_read(p, 1); }
void __tsan_write1(void* p) { simt::count_written(p, 1); }
PURSUIT_ACCESS(2)
PURSUIT_ACCESS(4)
PURSUIT_ACCESS(8)
PURSUIT_ACCESS(16)
PURSUIT_ATOMIC(8, uint8_t)
PURSUIT_ATOMIC(32, uint32_t)
PURSUIT_ATOMIC(64, uint64_t)
}
#endif
