#include "nn/convolution.h"

namespace pursuit::nn {

Conv2d::Conv2d(int64_t in, int64_t out, Pair kernel, const ConvOptions& options, bool with_bias,
               Role of_weight, Role of_bias)
    : options_(options) {
  if (options.groups < 1 || in % options.groups || out % options.groups)
    fail("Conv2d", "got " + std::to_string(in) + " and " + std::to_string(out) +
                       " channels, need numbers that " + std::to_string(options.groups) + " groups divide");
  const int64_t fan_in = in / options.groups * kernel.h * kernel.w;
  add_parameter("weight", weight, {out, in / options.groups, kernel.h, kernel.w}, {of_weight, fan_in});
  if (with_bias) add_parameter("bias", bias, {out}, {of_bias, fan_in});
}

Tensor Conv2d::forward(const Tensor& x) const {
  return conv2d(x, weight.to(x.dtype()), bias.defined() ? bias.to(x.dtype()) : Tensor(), options_);
}

}  // namespace pursuit::nn
