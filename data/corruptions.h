#pragma once
#include <string>
#include <vector>

#include "data/image.h"

namespace pursuit::data {

// The 15 corruptions of ImageNet-C (Hendrycks & Dietterich, "Benchmarking neural network robustness to common
// corruptions and perturbations", ICLR 2019) at severity 1 to 5, as implemented by the program that made the
// published images (hendrycks/robustness, make_imagenet_c.py), including where it differs from its
// description. tests/corruptions compares the two. The published files are also compressed as JPEG with
// quality 85, which is left out here.
//
// The parameters are meant for 224 x 224 images. For an image whose shorter side is below 224 they are
// adjusted to its size, with s = min(width, height) / 224:
//    - blur radii and widths, snow flakes, the elastic waves and the elastic affine jitter are scaled by s;
//    - blurs, trails and waves keep a least width (0.4 to 1 pixel), so that they reach neighbouring pixels;
//    - glass_blur cannot move a pixel by less than one: instead it moves a fraction of the pixels;
//    - the fog map is as large as the image (next power of two), frost overlays are scaled by s;
//    - parameters without a length (noise, brightness, contrast, relative zoom and pixelation, JPEG quality)
//      are unchanged.
// Larger images use the parameters unchanged.
const std::vector<std::string>& corruption_names();  // in the order of the published tables

// Average top-1 error of AlexNet on ImageNet-C, in [0, 1]: normalises a corruption's error in mCE.
double alexnet_error(const std::string& corruption);

// Overlays for `frost`: images frost1 to frost5 (png, jpg or jpeg) of a folder, or drawn frost crystals if
// there is no folder. read_frost throws if an image is missing.
std::vector<Image> read_frost(const std::string& folder);
const std::vector<Image>& drawn_frost();

// A corrupted copy of a grey or RGB image of any size. Deterministic in its arguments.
// Throws for an unknown name or a severity outside 1..5.
Image corrupt(const Image& image, const std::string& name, int severity, uint64_t seed,
              const std::vector<Image>& frost = drawn_frost());

// The seed of the corruption of one image: depends only on the evaluation's seed, the image's index, the
// corruption and the severity.
uint64_t corruption_seed(uint64_t seed, const std::string& name, int severity, int64_t picture);

}  // namespace pursuit::data
