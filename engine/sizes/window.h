#pragma once
#include <cstdint>

#include "engine/base/hd.h"

// Geometry of the windows of convolutions and pooling.
namespace pursuit {

// Windows along one dimension: tap t of window p is at p stride + t dilation - padding, which may be outside
// of [0, size).
struct Windows {
  int64_t size, kernel, stride, padding, dilation;

  int64_t reach() const { return dilation * (kernel - 1) + 1; }  // from the first tap to the last
  bool fits() const { return size + 2 * padding >= reach(); }
  int64_t count() const { return (size + 2 * padding - reach()) / stride + 1; }
  HD int64_t at(int64_t p, int64_t t) const { return p * stride + t * dilation - padding; }
  HD bool holds(int64_t i) const { return i >= 0 && i < size; }
};

// x [batch, channels, h.size, w.size], weight [out, channels / groups, h.kernel, w.kernel], y [batch, out,
// down, across].
struct ConvShape {
  int64_t batch, channels, out, groups;
  Windows h, w;
  int64_t down, across;

  HD int64_t taps() const { return h.kernel * w.kernel; }
  HD int64_t picture() const { return h.size * w.size; }
  HD int64_t positions() const { return down * across; }
  int64_t group_channels() const { return channels / groups; }
  int64_t group_out() const { return out / groups; }
  int64_t depth() const { return group_channels() * taps(); }  // terms per output
  bool depthwise() const { return groups == channels && groups == out; }
  // Whether each window is exactly one pixel (1x1 convolution).
  bool pointwise() const {
    return taps() == 1 && h.stride == 1 && w.stride == 1 && h.padding == 0 && w.padding == 0;
  }
};

}  // namespace pursuit
