#pragma once
#include "engine/sizes/window.h"

// Convolutions on the CPU: contiguous tensors with the shapes of ConvShape; bias [out] or null. Every sum is
// computed by one thread in a fixed order: results do not depend on the number of threads.
namespace pursuit {

// f32: a product by our register tiles with the unfolded image (im2col) as right operand, which is packed
// directly from the image and never stored. Depthwise convolutions loop over rows of outputs.
void convolve(const ConvShape& s, const float* x, const float* weight, const float* bias, float* y);
void convolve_input_gradient(const ConvShape& s, const float* gy, const float* weight, float* gx);
void convolve_weight_gradient(const ConvShape& s, const float* x, const float* gy, float* gw);

// f64, for gradient checks: products with the unfolded image.
void convolve(const ConvShape& s, const double* x, const double* weight, const double* bias, double* y);
void convolve_input_gradient(const ConvShape& s, const double* gy, const double* weight, double* gx);
void convolve_weight_gradient(const ConvShape& s, const double* x, const double* gy, double* gw);

}  // namespace pursuit
