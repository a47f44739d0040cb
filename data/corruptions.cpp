#include "data/corruptions.h"

#include <algorithm>
#include <filesystem>

#include "data/corruption_families.h"
#include "engine/base/error.h"
#include "engine/base/random.h"
#include "engine/base/streams.h"

namespace pursuit::data {
namespace {

struct Corruption {
  const char* name;
  double alexnet_error;
  FloatImage (*apply)(FloatImage, const CorruptionSetting&);
};

constexpr Corruption kCorruptions[] = {
    {"gaussian_noise", 0.886428, gaussian_noise},
    {"shot_noise", 0.894468, shot_noise},
    {"impulse_noise", 0.922640, impulse_noise},
    {"defocus_blur", 0.819880, defocus_blur},
    {"glass_blur", 0.826268, glass_blur},
    {"motion_blur", 0.785948, motion_blur},
    {"zoom_blur", 0.798360, zoom_blur},
    {"snow", 0.866816, snow},
    {"frost", 0.826572, frost},
    {"fog", 0.819324, fog},
    {"brightness", 0.564592, brightness},
    {"contrast", 0.853204, contrast},
    {"elastic_transform", 0.646056, elastic_transform},
    {"pixelate", 0.717840, pixelate},
    {"jpeg_compression", 0.606500, jpeg_compression},
};

const Corruption& find(const char* where, const std::string& name) {
  for (const Corruption& corruption : kCorruptions)
    if (name == corruption.name) return corruption;
  std::string all;
  for (const std::string& known : corruption_names()) all += " " + known;
  fail(where, "corruption: got " + name + ", need one of" + all);
}

}  // namespace

const std::vector<std::string>& corruption_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const Corruption& corruption : kCorruptions) out.push_back(corruption.name);
    return out;
  }();
  return names;
}

double alexnet_error(const std::string& corruption) {
  return find("alexnet_error", corruption).alexnet_error;
}

std::vector<Image> read_frost(const std::string& folder) {
  std::vector<Image> overlays;
  for (int i = 1; i <= 5; ++i) {
    const std::string stem = folder + "/frost" + std::to_string(i);
    std::string found;
    for (const char* ending : {".png", ".jpg", ".jpeg"})
      if (std::filesystem::exists(stem + ending)) found = stem + ending;
    if (found.empty())
      fail("read_frost",
           stem + ".png, .jpg, .jpeg: none of them is there; name a folder with frost1 to frost5");
    overlays.push_back(read_image(found));
  }
  return overlays;
}

Image corrupt(const Image& image, const std::string& name, int severity, uint64_t seed,
              const std::vector<Image>& frost) {
  const Corruption& corruption = find("corrupt", name);
  if (severity < 1 || severity > 5)
    fail("corrupt", "severity: got " + std::to_string(severity) + ", need 1 to 5");
  if (image.pixels.empty()) fail("corrupt", "the picture is empty");
  // Every corruption and severity has its own random stream, so equal seeds do not give equal noise.
  const uint64_t stream = uint64_t(&corruption - kCorruptions) * 5 + uint64_t(severity - 1);
  Random random(seed, stream);
  const double scale = std::min({image.width, image.height, 224}) / 224.0;
  return to_image(corruption.apply(to_float(image), {severity - 1, scale, random, frost}));
}

uint64_t corruption_seed(uint64_t seed, const std::string& name, int severity, int64_t picture) {
  const uint64_t type = uint64_t(&find("corruption_seed", name) - kCorruptions);
  const PhiloxBlock block =
      philox(seed, streams::corruptions.at(type * 8 + uint64_t(severity)), uint64_t(picture));
  return uint64_t(block.v[0]) << 32 | block.v[1];
}

}  // namespace pursuit::data
