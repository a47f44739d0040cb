#pragma once
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "engine/base/hd.h"

// The laboratory's versions access memory through a meter, their first argument. `Plain` returns raw pointers
// and has no cost; checks and timings use it. `Counting` counts.
//
//   const auto x = meter.memory(x_);  // read and written like a pointer
//   sum += x[i] * x[i];
//   meter.multiply_adds(1);
namespace pursuit::laboratory {

// The counts of one call of a version. A load or store is one access by a thread, of 4 bytes or a vector; it
// may hit a cache. `shared` counts shared memory; the others count global memory, or the CPU's. A sector is
// 32 bytes, the smallest transfer of a GPU, counted once for each load or store of a warp that touches it.
struct Counts {
  int64_t launches = 0, blocks = 0;
  int64_t loads = 0, loaded_bytes = 0;
  int64_t stores = 0, stored_bytes = 0;
  int64_t sectors = 0;
  int64_t shared_accesses = 0, shared_bytes = 0;
  int64_t exponentials = 0, multiply_adds = 0;
};

struct Plain {
  void launched(int64_t) const {}
  template <class T> HD T* memory(T* p) const { return p; }
  template <class T> HD T* shared(T* p) const { return p; }
  HD float exp(float x) const { return expf(x); }
  HD void multiply_adds(int64_t) const {}
};

// A pointer that reports every load and store to its meter.
template <class T, class Meter> struct Counted {
  T* p;
  Meter* meter;
  bool shared = false;

  struct Element {
    Counted at;
    operator std::remove_const_t<T>() const {
      at.note(false, sizeof(T));
      return *at.p;
    }
    void operator=(T v) const {
      at.note(true, sizeof(T));
      *at.p = v;
    }
    void operator+=(T v) const { *this = T(*this) + v; }
  };
  Element operator[](int64_t i) const { return {*this + i}; }
  Counted operator+(int64_t i) const { return {p + i, meter, shared}; }
  void note(bool is_store, int64_t bytes) const {
    shared ? meter->shared_access(bytes) : meter->access(p, is_store, bytes);
  }
};

class Counting {
 public:
  explicit Counting(Counts* counts) : counts_(counts) {}
  template <class T> Counted<T, Counting> memory(T* p) { return {p, this}; }
  void access(const void*, bool is_store, int64_t bytes) {
    ++(is_store ? counts_->stores : counts_->loads);
    (is_store ? counts_->stored_bytes : counts_->loaded_bytes) += bytes;
  }
  void shared_access(int64_t bytes) {
    ++counts_->shared_accesses;
    counts_->shared_bytes += bytes;
  }
  void multiply_adds(int64_t n) { counts_->multiply_adds += n; }

 protected:
  Counts* counts_;
};

}  // namespace pursuit::laboratory
