#include "engine/operator/copy.h"

#include <cstring>

#include "cuda/runtime.h"
#include "engine/core/shapes_only.h"
#include "engine/cpu/wide_rows.h"
#include "engine/operator/for_each.h"

namespace pursuit {

namespace {

template <class To> struct Convert {
  template <class From> HD To operator()(From v) const { return convert<To>(v); }
};

// Every step casts weights to bf16 and gradients to f32; contiguous ones by vector code.
void copy_rows(bf16* to, const float* from, int64_t n) { rows<float>().f32_to_bf16(from, words(to), n); }
void copy_rows(float* to, const bf16* from, int64_t n) { rows<float>().bf16_to_f32(words(from), to, n); }

template <class Dev, class To, class From> void copy(Dev dev, const Tensor& dst, const Tensor& src) {
  if constexpr (std::is_same_v<Dev, Cpu> && requires(To * to, const From* from) { copy_rows(to, from, 0); }) {
    if (dst.is_contiguous() && src.is_contiguous()) {
      To* to = dst.data<To>();
      const From* from = src.data<From>();
      return parallel_for(dst.numel(), 16384, [=](int64_t begin, int64_t end) {
        copy_rows(to + begin, from + begin, end - begin);
      });
    }
  }
  if constexpr (std::is_same_v<Dev, Cuda> && std::is_same_v<To, From>) {
    if (dst.is_contiguous() && src.is_contiguous())
      return cuda::copy_on_device(dst.raw(), src.raw(), dst.device().index, size_t(dst.bytes()));
  }
  for_each(dev, layout_of(dst.shape(), dst, src), map_to(dst.data<To>(), Convert<To>{}, src.data<From>()));
}

template <class Dev, class To> void copy_from(Dev dev, const Tensor& dst, const Tensor& src) {
  switch (src.dtype()) {
    case DType::f64:
      if constexpr (std::is_same_v<Dev, Cpu>) return copy<Dev, To, double>(dev, dst, src);
      break;
    case DType::f32:
      return copy<Dev, To, float>(dev, dst, src);
    case DType::bf16:
      return copy<Dev, To, bf16>(dev, dst, src);
    case DType::i64:
      return copy<Dev, To, int64_t>(dev, dst, src);
    case DType::i32:
      return copy<Dev, To, int32_t>(dev, dst, src);
    case DType::u8:
      return copy<Dev, To, uint8_t>(dev, dst, src);
    case DType::i8:
      return copy<Dev, To, int8_t>(dev, dst, src);
  }
  fail("copy", "f64 exists on the CPU only");
}

template <class Dev> void copy_to(Dev dev, const Tensor& dst, const Tensor& src) {
  switch (dst.dtype()) {
    case DType::f64:
      if constexpr (std::is_same_v<Dev, Cpu>) return copy_from<Dev, double>(dev, dst, src);
      break;
    case DType::f32:
      return copy_from<Dev, float>(dev, dst, src);
    case DType::bf16:
      return copy_from<Dev, bf16>(dev, dst, src);
    case DType::i64:
      return copy_from<Dev, int64_t>(dev, dst, src);
    case DType::i32:
      return copy_from<Dev, int32_t>(dev, dst, src);
    case DType::u8:
      return copy_from<Dev, uint8_t>(dev, dst, src);
    case DType::i8:
      return copy_from<Dev, int8_t>(dev, dst, src);
  }
  fail("copy", "f64 exists on the CPU only");
}

#ifdef PURSUIT_GPU
// By one thread: which byte is which must be known to the compiler, or all lie in local memory.
struct Write {
  uint8_t* to;
  int count;
  uint8_t bytes[64];
  HD void operator()(int64_t) const {
#pragma unroll
    for (int k = 0; k < 64; ++k)
      if (k < count) to[k] = bytes[k];
  }
};
#endif

// The elements between t's first and its last, and itself: t.numel() unless t has gaps or repeats elements.
int64_t extent(const Tensor& t) {
  int64_t elements = 1;
  for (int d = 0; d < t.ndim(); ++d) elements += (t.size(d) - 1) * t.stride(d);
  return elements;
}

}  // namespace

void require_apart(const char* where, const Tensor& dst, const Tensor& src) {
  if (dst.numel() == 0) return;
  for (int d = 0; d < dst.ndim(); ++d)
    if (dst.stride(d) == 0 && dst.size(d) > 1)
      fail(where, "elements of the " + dst.str() + " share memory; write into the tensor that was expanded");
  const bool same = dst.raw() == src.raw() && dst.shape() == src.shape() && dst.strides() == src.strides();
  // Views with gaps may lie between each other.
  if (same || dst.storage() != src.storage() || extent(dst) != dst.numel() || extent(src) != src.numel())
    return;
  const char* const to = static_cast<const char*>(dst.raw());
  const char* const from = static_cast<const char*>(src.raw());
  if (to < from + src.bytes() && from < to + dst.bytes())
    fail(where, "the " + dst.str() + " overlaps the " + src.str() + " that is read; copy that one first");
}

void copy_strided(const Tensor& dst, const Tensor& src) {
  if (shapes_only()) return;
  if (dst.device().is_cuda()) {
#ifdef PURSUIT_GPU
    return copy_to(Cuda{}, dst, src);
#else
    fail("copy", "this build has no CUDA");
#endif
  }
  copy_to(Cpu{}, dst, src);
}

void write_small(const Tensor& to, const void* from) {
  if (to.bytes() > 64 || !to.is_contiguous())
    fail("write_small", "got " + to.str() + ", need at most 64 bytes, contiguous");
  if (shapes_only()) return;
  if (to.device().is_cuda()) {
#ifdef PURSUIT_GPU
    Write write{static_cast<uint8_t*>(to.raw()), int(to.bytes()), {}};
    std::memcpy(write.bytes, from, size_t(to.bytes()));
    Layout<1> flat;
    flat.ndim = 1;
    flat.numel = flat.size[0] = flat.stride[0][0] = 1;
    return for_each(Cuda{}, flat, write);
#else
    fail("copy", "this build has no CUDA");
#endif
  }
  std::memcpy(to.raw(), from, size_t(to.bytes()));
}

}  // namespace pursuit
