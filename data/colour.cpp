#include "data/colour.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "data/kernels.h"
#include "engine/base/error.h"

namespace pursuit::data {
namespace {

using Table = std::array<uint8_t, 256>;

Image map_channel(Image image, int channel, const Table& table) {
  for (size_t i = size_t(channel); i < image.pixels.size(); i += size_t(image.channels))
    image.pixels[i] = table[image.pixels[i]];
  return image;
}

template <class F> Image map_values(Image image, F f) {
  Table table;
  for (int v = 0; v < 256; ++v) table[size_t(v)] = uint8_t(f(v));
  for (uint8_t& v : image.pixels) v = table[v];
  return image;
}

std::array<int64_t, 256> histogram(const Image& image, int channel) {
  std::array<int64_t, 256> counts{};
  for (size_t i = size_t(channel); i < image.pixels.size(); i += size_t(image.channels))
    ++counts[image.pixels[i]];
  return counts;
}

// 3 x 3 mean with a centre weight of 5; border pixels do not change.
Image smooth(const Image& image) {
  Image out = image;
  if (image.width < 3) return out;
  const int step = image.channels;
  for (int y = 1; y + 1 < image.height; ++y)
    picture_kernels().smooth(image.at(1, y), size_t(image.width - 2) * size_t(step),
                             ptrdiff_t(image.width) * step, step, out.at(1, y));
  return out;
}

}  // namespace

Image blend(const Image& first, const Image& second, double factor) {
  if (first.width != second.width || first.height != second.height || first.channels != second.channels)
    fail("blend", "the pictures differ in shape");
  Image out(first.width, first.height, first.channels);
  picture_kernels().blend(first.pixels.data(), second.pixels.data(), out.pixels.size(), float(factor),
                          out.pixels.data());
  return out;
}

Image adjust_brightness(const Image& image, double factor) {
  return blend(Image(image.width, image.height, image.channels), image, factor);
}

Image adjust_contrast(const Image& image, double factor) {
  const Image grey = to_grey(image);
  const double total = double(std::accumulate(grey.pixels.begin(), grey.pixels.end(), int64_t(0)));
  Image mean(image.width, image.height, image.channels);
  std::fill(mean.pixels.begin(), mean.pixels.end(), uint8_t(total / double(grey.pixels.size()) + 0.5));
  return blend(mean, image, factor);
}

Image adjust_saturation(const Image& image, double factor) {
  return image.channels == 1 ? image : blend(to_rgb(to_grey(image)), image, factor);
}

Image adjust_sharpness(const Image& image, double factor) { return blend(smooth(image), image, factor); }

Image adjust_hsv(Image image, double degrees, double saturation) {
  if (image.channels == 1) return image;
  const float turn = float(std::remainder(degrees, 360) / 60), factor = float(saturation);
  for (size_t i = 0; i < image.pixels.size(); i += 3) {
    uint8_t* rgb = &image.pixels[i];
    const float r = rgb[0], g = rgb[1], b = rgb[2];
    const float value = std::max({r, g, b}), chroma = value - std::min({r, g, b});
    if (chroma == 0) continue;
    // The hue in units of 60 degrees: red at 0, green at 2, blue at 4.
    const float hue = turn + (value == r   ? (g - b) / chroma
                              : value == g ? 2 + (b - r) / chroma
                                           : 4 + (r - g) / chroma);
    const float depth = std::min(chroma * factor, value);
    // A channel is at its maximum within 60 degrees of its hue and falls to its minimum over the next 60.
    for (int c = 0; c < 3; ++c) {
      const float apart = std::fabs(hue - float(2 * c)), distance = apart > 3 ? std::fabs(apart - 6) : apart;
      rgb[c] = uint8_t(value - depth * std::clamp(distance - 1, 0.0f, 1.0f) + 0.5f);
    }
  }
  return image;
}

Image auto_contrast(const Image& image) {
  Image out = image;
  for (int c = 0; c < image.channels; ++c) {
    const auto counts = histogram(image, c);
    const auto used = [](int64_t n) { return n > 0; };
    const int low = int(std::find_if(counts.begin(), counts.end(), used) - counts.begin());
    const int high = 255 - int(std::find_if(counts.rbegin(), counts.rend(), used) - counts.rbegin());
    if (high <= low) continue;
    const double scale = 255.0 / (high - low), offset = -low * scale;
    Table table;
    for (int v = 0; v < 256; ++v) table[size_t(v)] = uint8_t(std::clamp(int(v * scale + offset), 0, 255));
    out = map_channel(std::move(out), c, table);
  }
  return out;
}

Image equalize(const Image& image) {
  Image out = image;
  for (int c = 0; c < image.channels; ++c) {
    const auto counts = histogram(image, c);
    const auto last = std::find_if(counts.rbegin(), counts.rend(), [](int64_t n) { return n > 0; });
    const int64_t total = int64_t(image.width) * image.height;
    const int64_t step = last == counts.rend() ? 0 : (total - *last) / 255;
    if (step == 0) continue;
    Table table;
    int64_t n = step / 2;
    for (size_t v = 0; v < 256; ++v) {
      table[v] = uint8_t(std::min<int64_t>(n / step, 255));
      n += counts[v];
    }
    out = map_channel(std::move(out), c, table);
  }
  return out;
}

Image invert(const Image& image) {
  return map_values(image, [](int v) { return 255 - v; });
}

Image posterize(const Image& image, int bits) {
  if (bits < 0 || bits > 8) fail("posterize", "bits: got " + std::to_string(bits) + ", need 0 to 8");
  return map_values(image, [&](int v) { return v & ~((1 << (8 - bits)) - 1); });
}

Image solarize(const Image& image, int threshold) {
  return map_values(image, [&](int v) { return v < threshold ? v : 255 - v; });
}

Image solarize_add(const Image& image, int add, int below) {
  return map_values(image, [&](int v) { return v < below ? std::clamp(v + add, 0, 255) : v; });
}

}  // namespace pursuit::data
