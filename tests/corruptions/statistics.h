#pragma once
#include <string>
#include <vector>

#include "data/image.h"

// The reference for our corruptions: statistics of the output of ImageNet-C's original program
// (hendrycks/robustness, make_imagenet_c.py), which tools/corruption_statistics.py runs.
namespace pursuit::corruptions {

// The four test pictures: scenes of 224 x 224 pixels.
std::vector<data::Image> pictures();

// Statistics of values 0 to 255 over all pixels and channels.
struct Statistics {
  double mean = 0, deviation = 0;
  double laplacian = 0;  // mean of |4 p - its four neighbours| over the pixels that have four
  double psnr = 0;       // against the picture before, in dB
};
Statistics measure(const data::Image& corrupted, const data::Image& picture);

// The number of seeds per picture in the stored statistics: 1 for a corruption without randomness.
int seeds_of(const std::string& corruption);

// The statistics of a corruption at a severity, averaged over the pictures and seeds 0 to `seeds` - 1.
Statistics measure(const std::string& corruption, int severity, int seeds,
                   const std::vector<data::Image>& frost = {});

// The stored statistics of the original's output. Throws an Error that names the file if they are missing.
Statistics original(const std::string& corruption, int severity);

// The largest of the four deviations from the original, each relative to the original's value.
double relative_error(const Statistics& ours, const Statistics& original);
inline constexpr double kLargestError = 0.05;

std::string describe(const Statistics& statistics);  // "mean 120.1, deviation 40.2, laplacian 9.1, psnr 25.3"

}  // namespace pursuit::corruptions
