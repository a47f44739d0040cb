#include "engine/ops/window_checks.h"

#include <string>

namespace pursuit {

void require_windows(const char* name, const Tensor& x, Pair kernel, Pair stride, Pair padding,
                     Pair dilation) {
  constexpr int64_t most = int64_t(1) << 20;  // the product of three does not overflow
  const auto text = [](Pair p) { return std::to_string(p.h) + " x " + std::to_string(p.w); };
  const auto within = [](Pair p, int64_t least) {
    return p.h >= least && p.w >= least && p.h <= most && p.w <= most;
  };
  const std::string got = "got x " + x.str() + ", kernel " + text(kernel) + ", stride " + text(stride) +
                          ", padding " + text(padding) + ", dilation " + text(dilation);
  if (x.ndim() != 4 || !is_floating(x.dtype())) fail(name, got + ", need floating x [B, C, H, W]");
  if (!within(kernel, 1) || !within(stride, 1) || !within(padding, 0) || !within(dilation, 1))
    fail(name,
         got + ", need a kernel, stride and dilation of at least 1 and a padding of at least 0, none above " +
             std::to_string(most));
  const Windows h{x.size(2), kernel.h, stride.h, padding.h, dilation.h},
      w{x.size(3), kernel.w, stride.w, padding.w, dilation.w};
  if (x.size(2) < 1 || x.size(3) < 1 || !h.fits() || !w.fits())
    fail(name, got + ", need a kernel that fits into the padded picture; pad more or take a smaller kernel");
}

void require_half_padding(const char* name, Pair kernel, Pair padding) {
  if (2 * padding.h > kernel.h || 2 * padding.w > kernel.w)
    fail(name, "got a padding of " + std::to_string(padding.h) + " x " + std::to_string(padding.w) +
                   ", need at most half of the kernel, " + std::to_string(kernel.h) + " x " +
                   std::to_string(kernel.w));
}

}  // namespace pursuit
