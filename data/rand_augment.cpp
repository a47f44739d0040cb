#include "data/rand_augment.h"

#include <algorithm>

#include "data/colour.h"
#include "engine/base/error.h"

namespace pursuit::data {
namespace {

// The arguments of an operation; level is the magnitude scaled to 0..1.
struct Setting {
  double level;
  Filter filter;
  Colour fill;
  Random& random;

  double signed_level(double largest) const { return random.flip() ? -largest * level : largest * level; }
  double enhancement() const { return std::max(0.1, 1 + signed_level(0.9)); }
};

struct Operation {
  const char* name;
  Image (*apply)(const Image&, const Setting&);
};

constexpr Operation kOperations[] = {
    {"AutoContrast", [](const Image& x, const Setting&) { return auto_contrast(x); }},
    {"Equalize", [](const Image& x, const Setting&) { return equalize(x); }},
    {"Invert", [](const Image& x, const Setting&) { return invert(x); }},
    {"Rotate",
     [](const Image& x, const Setting& s) { return rotate(x, s.signed_level(30), s.filter, s.fill); }},
    {"PosterizeIncreasing",
     [](const Image& x, const Setting& s) { return posterize(x, 4 - int(s.level * 4)); }},
    {"SolarizeIncreasing",
     [](const Image& x, const Setting& s) { return solarize(x, 256 - int(s.level * 256)); }},
    {"SolarizeAdd",
     [](const Image& x, const Setting& s) { return solarize_add(x, int(s.level * 110), 128); }},
    {"ColorIncreasing",
     [](const Image& x, const Setting& s) { return adjust_saturation(x, s.enhancement()); }},
    {"ContrastIncreasing",
     [](const Image& x, const Setting& s) { return adjust_contrast(x, s.enhancement()); }},
    {"BrightnessIncreasing",
     [](const Image& x, const Setting& s) { return adjust_brightness(x, s.enhancement()); }},
    {"SharpnessIncreasing",
     [](const Image& x, const Setting& s) { return adjust_sharpness(x, s.enhancement()); }},
    {"ShearX",
     [](const Image& x, const Setting& s) { return shear_x(x, s.signed_level(0.3), s.filter, s.fill); }},
    {"ShearY",
     [](const Image& x, const Setting& s) { return shear_y(x, s.signed_level(0.3), s.filter, s.fill); }},
    {"TranslateXRel",
     [](const Image& x, const Setting& s) {
       return translate(x, s.signed_level(0.45) * x.width, 0, s.filter, s.fill);
     }},
    {"TranslateYRel",
     [](const Image& x, const Setting& s) {
       return translate(x, 0, s.signed_level(0.45) * x.height, s.filter, s.fill);
     }},
};

}  // namespace

const std::vector<std::string>& rand_augment_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const Operation& operation : kOperations) out.push_back(operation.name);
    return out;
  }();
  return names;
}

Image apply_augmentation(const Image& image, const std::string& name, double magnitude, Filter filter,
                         Colour fill, Random& random) {
  for (const Operation& operation : kOperations)
    if (name == operation.name)
      return operation.apply(image, {std::clamp(magnitude, 0.0, 10.0) / 10, filter, fill, random});
  std::string all;
  for (const std::string& known : rand_augment_names()) all += " " + known;
  fail("apply_augmentation", "operation: got " + name + ", need one of" + all);
}

Image rand_augment(const Image& image, Random& random, const RandAugment& options) {
  Image out = image;
  for (int i = 0; i < options.operations; ++i) {
    const Operation& operation = kOperations[random.below(std::size(kOperations))];
    if (!random.flip(options.probability)) continue;
    const double noise = options.magnitude_std > 0 ? options.magnitude_std * random.normal() : 0;
    const double level = std::clamp(options.magnitude + noise, 0.0, 10.0) / 10;
    out = operation.apply(out, {level, options.filter, options.fill, random});
  }
  return out;
}

}  // namespace pursuit::data
