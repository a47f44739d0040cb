#include "apps/pictures/mask_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/page/lettering.h"
#include "engine/base/error.h"

namespace pursuit::apps {

data::Image colour_mask(const data::Image& labels, const std::vector<data::Rgb>& colours) {
  data::Image mask(labels.width, labels.height, 3);
  for (size_t i = 0; i < labels.pixels.size(); ++i) {
    const uint8_t label = labels.pixels[i];
    if (label == data::kIgnoredLabel) continue;
    if (label >= colours.size())
      fail("mask", fmt::format("class {} has no colour, there are {} of them", label, colours.size()));
    std::copy(colours[label].begin(), colours[label].end(), &mask.pixels[3 * i]);
  }
  return mask;
}

data::Image overlay(const data::Image& picture, const data::Image& mask, double opacity) {
  const data::Image rgb = data::to_rgb(picture);
  if (rgb.width != mask.width || rgb.height != mask.height || mask.channels != 3)
    fail("overlay", fmt::format("got a picture of {} x {} and a mask of {} x {}, need one size", rgb.width,
                                rgb.height, mask.width, mask.height));
  data::Image out = rgb;
  for (size_t i = 0; i < out.pixels.size(); ++i)
    out.pixels[i] = uint8_t(std::lround(rgb.pixels[i] * (1 - opacity) + mask.pixels[i] * opacity));
  return out;
}

std::vector<ClassShare> class_shares(const data::Image& labels, int64_t classes) {
  std::vector<int64_t> pixels(static_cast<size_t>(classes));
  int64_t counted = 0;
  for (const uint8_t label : labels.pixels) {
    if (label == data::kIgnoredLabel) continue;
    ++pixels.at(label);
    ++counted;
  }
  std::vector<ClassShare> shares;
  for (size_t c = 0; c < pixels.size(); ++c)
    if (pixels[c] > 0) shares.push_back({c, double(pixels[c]) / double(counted)});
  std::stable_sort(shares.begin(), shares.end(),
                   [](const auto& a, const auto& b) { return a.share > b.share; });
  return shares;
}

data::Image legend(const data::Image& labels, const std::vector<std::string>& classes,
                   const std::vector<data::Rgb>& colours, bool shares) {
  const Lettering letters{.scale = 2};
  constexpr int margin = 8, swatch = 18;
  const int row = letters.height() + 6;
  const std::vector<ClassShare> found = class_shares(labels, int64_t(classes.size()));
  std::vector<std::string> lines;
  int width = 0;
  for (const auto& [c, share] : found) {
    lines.push_back(shares ? fmt::format("{} {:.1f}%", classes[c], 100 * share) : classes[c]);
    width = std::max(width, letters.width(lines.back()));
  }
  data::Image out(3 * margin + swatch + width, 2 * margin + row * std::max(1, int(lines.size())), 3);
  std::fill(out.pixels.begin(), out.pixels.end(), uint8_t(255));
  for (size_t i = 0; i < lines.size(); ++i) {
    const data::Rgb& colour = colours.at(found[i].index);
    const int top = margin + row * int(i);
    for (int y = top; y < top + swatch; ++y)
      for (int x = margin; x < margin + swatch; ++x) std::copy(colour.begin(), colour.end(), out.at(x, y));
    letters.draw(out, 2 * margin + swatch, top + 2, lines[i], {0, 0, 0});
  }
  return out;
}

}  // namespace pursuit::apps
