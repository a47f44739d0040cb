#pragma once
#include "engine/ops/window.h"

// Convolutions on the CPU: tensors contiguous, as ConvShape says; bias [out] or null. Split over threads so
// that every sum runs in one thread in one order: the results do not depend on their number.
namespace pursuit {

// f32: the unfolded picture is the right factor of a product that is made of our register tiles; it is packed
// from the picture itself and never stored. Depthwise ones go over rows of outputs.
void convolve(const ConvShape& s, const float* x, const float* weight, const float* bias, float* y);
void convolve_input_gradient(const ConvShape& s, const float* gy, const float* weight, float* gx);
void convolve_weight_gradient(const ConvShape& s, const float* x, const float* gy, float* gw);

// f64, for gradient checks: products with the unfolded picture.
void convolve(const ConvShape& s, const double* x, const double* weight, const double* bias, double* y);
void convolve_input_gradient(const ConvShape& s, const double* gy, const double* weight, double* gx);
void convolve_weight_gradient(const ConvShape& s, const double* x, const double* gy, double* gw);

}  // namespace pursuit
