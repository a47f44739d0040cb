#include "data/mixup.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "engine/base/error.h"

namespace pursuit::data {
namespace {

// The logarithm of a Gamma(a, 1) variate: Marsaglia and Tsang, "A simple method for generating gamma
// variables", ACM TOMS 2000. Shapes below 1 use Gamma(a + 1) U^(1/a), in logarithms because it underflows for
// small a.
double sample_log_gamma(Random& random, double a) {
  if (a < 1) {
    const double above = sample_log_gamma(random, a + 1);
    return above + std::log(1 - random.uniform()) / a;
  }
  const double d = a - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = random.normal(), cube_root = 1 + c * x;
    if (cube_root <= 0) continue;
    const double v = cube_root * cube_root * cube_root;
    if (std::log(1 - random.uniform()) < x * x / 2 + d - d * v + d * std::log(v)) return std::log(d * v);
  }
}

void require(bool ok, const char* what, double got, const char* need) {
  if (!ok) fail("mixup", std::string(what) + ": got " + std::to_string(got) + ", need " + need);
}

}  // namespace

double sample_beta(Random& random, double a, double b) {
  require(a > 0 && b > 0, "the parameter of a beta distribution", std::min(a, b), "more than 0");
  const double x = sample_log_gamma(random, a), y = sample_log_gamma(random, b);
  return 1 / (1 + std::exp(y - x));
}

Mix draw_mix(const MixupOptions& options, int width, int height, Random& random) {
  require(options.mixup_alpha >= 0, "mixup alpha", options.mixup_alpha, "0 (off) or more");
  require(options.cutmix_alpha >= 0, "cutmix alpha", options.cutmix_alpha, "0 (off) or more");
  require(options.probability >= 0 && options.probability <= 1, "probability", options.probability, "0 to 1");
  require(options.switch_probability >= 0 && options.switch_probability <= 1, "switch probability",
          options.switch_probability, "0 to 1");
  Mix mix;
  const bool can_mixup = options.mixup_alpha > 0, can_cutmix = options.cutmix_alpha > 0;
  if (!(can_mixup || can_cutmix) || !random.flip(options.probability)) return mix;
  mix.cutmix = can_cutmix && (!can_mixup || random.flip(options.switch_probability));
  const double alpha = mix.cutmix ? options.cutmix_alpha : options.mixup_alpha;
  mix.lambda = sample_beta(random, alpha, alpha);
  mix.box = {0, 0, width, height};
  if (mix.cutmix) {
    // The box has the picture's aspect ratio. Part of it may lie outside, so lambda is recomputed from the
    // part inside.
    const double side = std::sqrt(1 - mix.lambda);
    const int half_height = int(height * side) / 2, half_width = int(width * side) / 2;
    const int y = int(random.below(height)), x = int(random.below(width));
    const int top = std::max(y - half_height, 0), left = std::max(x - half_width, 0);
    mix.box = {left, top, std::min(x + half_width, width) - left, std::min(y + half_height, height) - top};
    mix.lambda = 1 - double(mix.box.width) * mix.box.height / (double(width) * height);
  }
  return mix;
}

int64_t mix_partner(int64_t b, int64_t batch) {
  const int64_t first = b / kMixGroup * kMixGroup, last = std::min(first + kMixGroup, batch) - 1;
  return first + last - b;
}

std::vector<Mix> draw_mixes(const MixupOptions& options, int64_t batch, int width, int height,
                            Random& random) {
  std::vector<Mix> mixes;
  for (int64_t first = 0; first < batch; first += kMixGroup)
    mixes.push_back(draw_mix(options, width, height, random));
  return mixes;
}

std::vector<float> mix_rows(int64_t batch, const std::vector<Mix>& mixes) {
  std::vector<float> rows;
  for (int64_t b = 0; b < batch; ++b) {
    const Mix& mix = mixes.at(size_t(b / kMixGroup));
    rows.insert(rows.end(), {mix.own(), float(mix.box.x), float(mix.box.y), float(mix.box.width),
                             float(mix.box.height), float(mix_partner(b, batch))});
  }
  return rows;
}

std::vector<float> mix_targets(const std::vector<int64_t>& labels, int64_t classes, double label_smoothing,
                               const std::vector<Mix>& mixes) {
  require(classes > 0, "classes", double(classes), "1 or more");
  require(label_smoothing >= 0 && label_smoothing < 1, "label smoothing", label_smoothing,
          "0 to less than 1");
  for (const int64_t label : labels) {
    if (label >= 0 && label < classes) continue;
    fail("mixup", "a label is out of range: got " + std::to_string(label) + ", need 0 to " +
                      std::to_string(classes - 1));
  }
  const double on = 1 - label_smoothing;
  std::vector<float> targets(labels.size() * size_t(classes), float(label_smoothing / double(classes)));
  for (size_t b = 0; b < labels.size(); ++b) {
    float* row = &targets[b * size_t(classes)];
    const double own = mixes.empty() ? 1 : mixes.at(b / size_t(kMixGroup)).lambda;
    row[labels[b]] += float(own * on);
    row[labels[size_t(mix_partner(int64_t(b), int64_t(labels.size())))]] += float((1 - own) * on);
  }
  return targets;
}

}  // namespace pursuit::data
