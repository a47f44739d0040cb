#pragma once
#include <array>

#include "data/image.h"
#include "data/resize.h"

namespace pursuit::data {

using Colour = std::array<uint8_t, 3>;  // a grey image uses the first entry

// Each pixel centre (x, y) of the result is read at (m[0] x + m[1] y + m[2], m[3] x + m[4] y + m[5]), with
// pixel centres at half-integers, as in Pillow's transform; positions outside the image take the fill colour.
// Bilinear, or bicubic with a = -1 (Pillow's choice for transforms). Throws for Filter::box.
Image affine(const Image& image, const std::array<double, 6>& m, Filter filter, Colour fill);

Image rotate(const Image& image, double degrees, Filter filter,
             Colour fill);  // counter-clockwise, about the centre
Image shear_x(const Image& image, double factor, Filter filter, Colour fill);
Image shear_y(const Image& image, double factor, Filter filter, Colour fill);
Image translate(const Image& image, double dx, double dy, Filter filter,
                Colour fill);  // reads at (x + dx, y + dy)

}  // namespace pursuit::data
