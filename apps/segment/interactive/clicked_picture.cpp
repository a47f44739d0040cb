#include "apps/segment/interactive/clicked_picture.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "apps/training/checkpoint.h"
#include "data/augment.h"
#include "data/resize.h"
#include "data/segmentation_augment.h"
#include "engine/ops.h"

namespace pursuit::segment::interactive {

const std::vector<double> picture_mean = {0.485, 0.456, 0.406}, picture_std = {0.229, 0.224, 0.225};

ClickNumbers click_numbers(const std::vector<std::vector<data::Click>>& clicks, int64_t most, int64_t token,
                           int64_t height, int64_t width) {
  const size_t pictures = clicks.size();
  ClickNumbers n{std::vector<int64_t>(pictures * size_t(most)), std::vector<float>(pictures * size_t(most)),
                 std::vector<float>(pictures * size_t(height * width))};
  for (size_t i = 0; i < pictures; ++i)
    for (size_t k = 0; k < clicks[i].size(); ++k) {
      const data::Click& click = clicks[i][k];
      const int64_t at = click.y / token * width + click.x / token;
      const float value = click.positive ? 1 : -1;
      n.tokens.at(i * size_t(most) + k) = at;
      n.values.at(i * size_t(most) + k) = value;
      n.clicked.at(i * size_t(height * width) + size_t(at)) = value;
    }
  return n;
}

data::Image mask_of(const Tensor& logits, int64_t picture, int height, int width) {
  const float least = std::log(0.49f / 0.51f);
  data::Image mask(width, height, 1);
  const float* pixels = logits.data<float>() + picture * height * width;
  for (size_t i = 0; i < mask.pixels.size(); ++i) {
    if (std::isnan(pixels[i])) throw apps::NotFinite("the model gives NaN: its training has diverged");
    mask.pixels[i] = pixels[i] > least;
  }
  return mask;
}

ClickedPicture::ClickedPicture(const nn::InteractiveSegmenter& model, const Config& c,
                               const data::Image& picture)
    : model_(model),
      width_(picture.width),
      height_(picture.height),
      input_height_(c.height),
      input_width_(c.width) {
  const double scale = std::min(double(c.width) / width_, double(c.height) / height_);
  const auto scaled = [&](int side, int64_t most) {
    return std::clamp(int(std::lround(side * scale)), 1, int(most));
  };
  fitted_width_ = scaled(width_, c.width);
  fitted_height_ = scaled(height_, c.height);
  data::SegmentationSample sample;
  sample.image = data::resize(data::to_rgb(picture), fitted_width_, fitted_height_, data::Filter::bilinear);
  sample.labels = data::Image(fitted_width_, fitted_height_, 1);
  std::vector<uint8_t> planes(size_t(3 * c.height * c.width));
  std::vector<int64_t> unused(size_t(c.height * c.width));
  data::to_padded(sample, data::mean_colour(picture_mean), int(c.width), int(c.height), planes, unused);
  const NoGrad off;
  const Tensor pixels = from_vector(planes, {1, 3, c.height, c.width}).to(device_from_name(c.device));
  looked_ = model.look(normalise_images(pixels, picture_mean, picture_std, c.dtype));
}

data::Image ClickedPicture::mask(const std::vector<data::Click>& clicks) const {
  std::vector<data::Click> on_input = clicks;
  for (data::Click& click : on_input) {
    // The pixel of the input that has the centre of the clicked one.
    click.x = std::clamp(int((click.x + 0.5) * fitted_width_ / width_), 0, fitted_width_ - 1);
    click.y = std::clamp(int((click.y + 0.5) * fitted_height_ / height_), 0, fitted_height_ - 1);
  }
  const int64_t most = std::max<int64_t>(1, int64_t(clicks.size()));
  const ClickNumbers n =
      click_numbers({on_input}, most, model_.config().token(), looked_.height, looked_.width);
  const Device device = looked_.queries.device();
  const nn::TokenClicks of_model = {from_vector(n.tokens, {1, most}).to(device),
                                    from_vector(n.values, {1, most}).to(device),
                                    from_vector(n.clicked, {1, looked_.height * looked_.width}).to(device)};
  const NoGrad off;
  const Tensor on_tokens = model_.answer(looked_, of_model).to(cpu);
  const Tensor fitted = upsample_bilinear(on_tokens, input_height_, input_width_)
                            .slice(2, 0, fitted_height_)
                            .slice(3, 0, fitted_width_);
  return mask_of(upsample_bilinear(fitted, height_, width_).contiguous(), 0, height_, width_);
}

data::ClickCurve click_curve(const ClickedPicture& picture, const data::Image& object, int clicks,
                             Random* random) {
  data::ClickCurve curve;
  std::vector<data::Click> made;
  data::Image mask(object.width, object.height, 1);
  for (int k = 0; k < clicks; ++k) {
    if (const auto click = data::next_click(object, mask, made, random)) {
      made.push_back(*click);
      mask = picture.mask(made);
    }
    curve.push_back(data::intersection_over_union(object, mask));
  }
  return curve;
}

}  // namespace pursuit::segment::interactive
