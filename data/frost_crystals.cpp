#include <algorithm>
#include <cmath>
#include <numbers>

#include "data/corruptions.h"
#include "data/float_image.h"
#include "engine/base/random.h"

namespace pursuit::data {
namespace {

// One sheet of frost: ferns of ice needles over a misty pane.
struct Sheet {
  float tint[3];  // colour of the mist, relative to the ice's white
  float mist;     // brightness between the ferns
  double length;  // of a fern's stem, in pixels
  int ferns;
  double straightness;  // 1: stems are straight; less: they bend
};

constexpr int kWidth = 480, kHeight = 360;

constexpr Sheet kSheets[] = {
    {{0.45f, 0.82f, 0.92f}, 0.66f, 80, 350, 0.97},  {{0.95f, 0.96f, 1.00f}, 0.76f, 60, 1500, 0.99},
    {{0.90f, 0.93f, 1.00f}, 0.68f, 100, 700, 0.99}, {{0.85f, 0.91f, 1.00f}, 0.55f, 35, 2000, 0.98},
    {{0.76f, 0.84f, 1.00f}, 0.40f, 60, 1100, 0.98},
};

class Painter {
 public:
  explicit Painter(FloatImage& ice) : ice_(ice) {}

  // A needle from (x, y) that fades towards its tip; light is the brightness at its root.
  void needle(double x, double y, double angle, double length, double light) {
    const double step = 0.8;
    for (double s = 0; s < length; s += step)
      dab(x + s * std::cos(angle), y + s * std::sin(angle), light * (1 - 0.7 * s / length));
  }

  // Overlapping ice takes the maximum brightness, not the sum.
  void dab(double x, double y, double light) {
    const int x0 = int(std::floor(x)), y0 = int(std::floor(y));
    for (int j = 0; j < 2; ++j)
      for (int i = 0; i < 2; ++i) {
        if (x0 + i < 0 || x0 + i >= ice_.width || y0 + j < 0 || y0 + j >= ice_.height) continue;
        const double near = (1 - std::abs(x - x0 - i)) * (1 - std::abs(y - y0 - j));
        float& v = ice_.row(0, y0 + j)[x0 + i];
        v = std::max(v, float(light * std::sqrt(near)));
      }
  }

 private:
  FloatImage& ice_;
};

// A stem with side needles at 60 degrees, as in ice crystals, which get shorter towards the tip.
void paint_fern(Painter& painter, const Sheet& sheet, Random& random) {
  double x = random.uniform(-20, kWidth + 20), y = random.uniform(-20, kHeight + 20);
  double angle = random.uniform(0, 2 * std::numbers::pi);
  const double length = sheet.length * random.uniform(0.3, 1.3), light = random.uniform(0.2, 1.0);
  const double bend = (1 - sheet.straightness) * random.uniform(-1, 1),
               side = length * random.uniform(0.12, 0.4);
  const double spacing = random.uniform(1.2, 2.4);
  for (double s = 0; s < length; s += spacing) {
    painter.needle(x, y, angle, spacing * 1.2, light);
    const double reach = side * (1 - s / length) * random.uniform(0.3, 1.0);
    for (double turn : {-std::numbers::pi / 3, std::numbers::pi / 3})
      painter.needle(x, y, angle + turn, reach, light * random.uniform(0.2, 0.9));
    x += spacing * std::cos(angle);
    y += spacing * std::sin(angle);
    angle += bend;
  }
}

Image paint_sheet(const Sheet& sheet, uint64_t number) {
  Random random(0xf2057, number);
  FloatImage ice(kWidth, kHeight, 1);
  Painter painter(ice);
  for (int i = 0; i < sheet.ferns; ++i) paint_fern(painter, sheet, random);

  FloatImage mist(kWidth, kHeight, 1);  // low-frequency changes of brightness
  for (float& v : mist.values) v = float(random.normal());
  constexpr double sigma = 25;
  mist = gaussian_blur(mist, sigma, 3, Border::mirror);
  const double deviation = 1 / (2 * std::sqrt(std::numbers::pi) * sigma);

  FloatImage out(kWidth, kHeight, 3);
  for (size_t i = 0; i < ice.values.size(); ++i) {
    const float pane = sheet.mist * (1 + 0.12f * std::clamp(mist.values[i] / float(deviation), -1.5f, 1.5f)) +
                       0.03f * float(random.normal());
    for (size_t c = 0; c < 3; ++c) {
      const float base = pane * sheet.tint[c];
      out.values[c * out.plane_size() + i] = base + (1 - base) * 0.85f * ice.values[i];
    }
  }
  return to_image(out);
}

}  // namespace

const std::vector<Image>& drawn_frost() {
  static const std::vector<Image> sheets = [] {
    std::vector<Image> out;
    for (const Sheet& sheet : kSheets) out.push_back(paint_sheet(sheet, out.size()));
    return out;
  }();
  return sheets;
}

}  // namespace pursuit::data
