#pragma once
#include <vector>

#include "apps/segment/interactive/config.h"
#include "data/image.h"
#include "data/interactive/robot_user.h"
#include "engine/step/transfer.h"

namespace pursuit::segment::interactive {

// ImageNet's statistics, by which pictures are normalised.
extern const std::vector<double> picture_mean, picture_std;

// Clicks on pictures of one size, in their pixels, as numbers of nn::TokenClicks.
struct ClickNumbers {
  std::vector<int64_t> tokens;         // [pictures, most]
  std::vector<float> values, clicked;  // [pictures, most], [pictures, tokens]
};
// `most`: the width of the tensors, at least 1; `height` and `width` of the grid of tokens.
ClickNumbers click_numbers(const std::vector<std::vector<data::Click>>& clicks, int64_t most, int64_t token,
                           int64_t height, int64_t width);

// The pixels [height * width] of a mask with a probability above 0.49, as RITM decides. `logits` has them as
// f32. Throws apps::NotFinite if one is NaN.
data::Image mask_of(const Tensor& logits, int64_t picture, int height, int width);

// A picture at which a model has looked once; the masks for clicks follow. It is scaled to fit the model's
// input, its aspect ratio kept, and padded on the right and below with the mean colour. Keeps a reference to
// the model.
class ClickedPicture {
 public:
  ClickedPicture(const nn::InteractiveSegmenter& model, const Config& config, const data::Image& picture);

  // 1 the object, 0 all else, of the picture's size; clicks in its pixels.
  data::Image mask(const std::vector<data::Click>& clicks) const;

 private:
  const nn::InteractiveSegmenter& model_;
  int width_, height_;                        // of the picture
  int64_t input_height_, input_width_;        // of the model's input
  int fitted_width_ = 0, fitted_height_ = 0;  // of the picture within it
  nn::InteractiveSegmenter::Looked looked_;
};

// The IoU after each of `clicks` clicks of the robot user (data::next_click); it goes on to the end.
data::ClickCurve click_curve(const ClickedPicture& picture, const data::Image& object, int clicks,
                             Random* random = nullptr);

}  // namespace pursuit::segment::interactive
