#pragma once
#include <string>
#include <vector>

#include "data/image.h"

namespace pursuit::data {

// The 15 corruptions of ImageNet-C (Hendrycks & Dietterich, "Benchmarking neural network robustness to common
// corruptions and perturbations", ICLR 2019) at severity 1 to 5, made as the program made them that its
// pictures come from (hendrycks/robustness, make_imagenet_c.py): also where that program does other than it
// says. tests/corruptions compares the two. The published files are JPEGs of quality 85 besides, which is
// left out here.
//
// The parameters are meant for 224 x 224 pictures. A picture whose shorter side is below 224 uses the same
// ones relative to its size, with s = min(width, height) / 224:
//   - blur radii and widths, snow flakes, the elastic waves and the elastic affine jitter are scaled by s;
//   - no blur, trail or wave gets so narrow that it would miss the neighbouring pixels (0.4 to 1 pixel);
//   - glass_blur cannot move a pixel by less than one: instead it moves a share of the pixels;
//   - the fog map is as large as the picture (next power of two), frost overlays are shrunk by s;
//   - what has no length (noise, brightness, contrast, relative zoom and pixelation, JPEG quality) is
//   unchanged.
// Larger pictures use the parameters as they are.
const std::vector<std::string>& corruption_names();  // in the order of the published tables

// Average top-1 error of AlexNet on ImageNet-C, in [0, 1]: the divisor of a corruption's error in mCE.
double alexnet_error(const std::string& corruption);

// Overlays for `frost`: the pictures frost1 to frost5 (png, jpg or jpeg) of a folder, or drawn frost crystals
// when no folder is at hand. read_frost throws if a picture is missing.
std::vector<Image> read_frost(const std::string& folder);
const std::vector<Image>& drawn_frost();

// A corrupted copy of a grey or RGB picture of any size. The result depends on the arguments alone.
// Throws for an unknown name and a severity outside 1..5.
Image corrupt(const Image& image, const std::string& name, int severity, uint64_t seed,
              const std::vector<Image>& frost = drawn_frost());

// The seed of a picture's corruption in a set, a function of the evaluation's seed, the picture's number, the
// corruption and the severity alone.
uint64_t corruption_seed(uint64_t seed, const std::string& name, int severity, int64_t picture);

}  // namespace pursuit::data
