#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

// The inner loops on pictures, compiled for several instruction sets from kernels.inc. All sets give the same
// bits: sums of integers are exact, and those of floating point have one order and no fused multiply-adds.
namespace pursuit::data {

// Weights are fixed-point numbers with 22 fraction bits. The other bits of an int32 are 8 for the pixel, 2
// for the overshoot of the cubic filter, and the sign. This is as in Pillow, so results agree bit for bit.
inline constexpr int kFractionBits = 22;
inline constexpr int kLanes = 16;  // bytes that a kernel of resize takes at once

// An output is the sum of weights[k] * input[first + k], k < count.
struct Window {
  int first, count;
  const int32_t* weights;
};

// Where output pixels (x, y) are read, see affine.h.
struct AffineMap {
  double m[6];
};

struct PictureKernels {
  // One output row [bytes] of a vertical resize, of input rows `stride` bytes apart, which are readable up to
  // the next multiple of kLanes.
  void (*weigh_rows)(const uint8_t* rows, size_t stride, Window window, size_t bytes, uint8_t* out);
  // A horizontal resize of kLanes rows: row r of `rows` has `bytes` bytes, those of whole pixels. Writes row
  // r to out + r * stride, up to the next multiple of kLanes. `scratch` has kLanes bytes for every input byte
  // and every output byte, that many rounded up to a multiple of kLanes.
  void (*weigh_columns)(const uint8_t* const* rows, size_t bytes, const Window* windows, size_t count,
                        int channels, uint8_t* scratch, uint8_t* out, size_t stride);
  // Row y of an affine transform [width, channels] of an image [height, width, 4] that has `border` more
  // pixels on every side. `taps` is 2 (bilinear) or 4 (bicubic). Leaves pixels that are read outside.
  void (*affine_row)(const uint8_t* bordered, int border, int width, int height, const AffineMap& map,
                     int taps, int y, int channels, uint8_t* out);
  // first + factor * (second - first), clipped.
  void (*blend)(const uint8_t* first, const uint8_t* second, size_t count, float factor, uint8_t* out);
  void (*planes)(const uint8_t* rgb, size_t pixels, uint8_t* out);  // [pixels, 3] to [3, pixels]
  void (*grey)(const uint8_t* rgb, size_t pixels, uint8_t* out);    // see to_grey
  // A row of a 3 x 3 mean with a centre weight of 5; `row` bytes to the next row, `step` to the next pixel.
  void (*smooth)(const uint8_t* in, size_t count, ptrdiff_t row, ptrdiff_t step, uint8_t* out);
};

// Those of the instruction set that the engine's row kernels use, see PURSUIT_ISA.
const PictureKernels& picture_kernels();
// "avx512", "avx2" or "sse2", which the processor must have.
const PictureKernels& picture_kernels(const std::string& isa);

}  // namespace pursuit::data
