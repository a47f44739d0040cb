#pragma once
#include <vector>

#include "data/float_image.h"
#include "data/image.h"
#include "engine/base/random.h"

namespace pursuit::data {

// Parameters of a corruption besides the image.
struct CorruptionSetting {
  int severity;  // 0 to 4
  double scale;  // min(width, height, 224) / 224
  Random& random;
  const std::vector<Image>& frost;
};

FloatImage gaussian_noise(FloatImage image, const CorruptionSetting& setting);
FloatImage shot_noise(FloatImage image, const CorruptionSetting& setting);
FloatImage impulse_noise(FloatImage image, const CorruptionSetting& setting);

FloatImage defocus_blur(FloatImage image, const CorruptionSetting& setting);
FloatImage glass_blur(FloatImage image, const CorruptionSetting& setting);
FloatImage motion_blur(FloatImage image, const CorruptionSetting& setting);
FloatImage zoom_blur(FloatImage image, const CorruptionSetting& setting);

FloatImage snow(FloatImage image, const CorruptionSetting& setting);
FloatImage frost(FloatImage image, const CorruptionSetting& setting);
FloatImage fog(FloatImage image, const CorruptionSetting& setting);
FloatImage brightness(FloatImage image, const CorruptionSetting& setting);

FloatImage contrast(FloatImage image, const CorruptionSetting& setting);
FloatImage elastic_transform(FloatImage image, const CorruptionSetting& setting);
FloatImage pixelate(FloatImage image, const CorruptionSetting& setting);
FloatImage jpeg_compression(FloatImage image, const CorruptionSetting& setting);

}  // namespace pursuit::data
