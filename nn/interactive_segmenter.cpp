#include "nn/interactive_segmenter.h"

#include <array>
#include <cmath>
#include <string>

#include "engine/ops.h"

namespace pursuit::nn {

namespace {

const InteractiveSegmenterConfig& checked(const InteractiveSegmenterConfig& c) {
  if (c.halvings < 1 || c.halvings > 6 || c.dim < 1 || c.depth < 0 || c.key_dim < 1)
    fail("interactive segmenter",
         "got " + std::to_string(c.halvings) + " halvings, width " + std::to_string(c.dim) + ", depth " +
             std::to_string(c.depth) + " and keys " + std::to_string(c.key_dim) +
             " wide; need 1 to 6 halvings, a depth of at least 0 and widths of at least 1");
  return c;
}

// The factors at the start of training; their logarithms are learned.
constexpr double first_place = 8, first_scale = 5;
// beta / theta of values. A unit's weight at a clicked token is about 1 over the number of tokens alike.
double first_beta(int64_t tokens) { return double(tokens) / 5; }

Tensor places(int64_t height, int64_t width, Device device) {
  const Tensor ones = full({height, width, 1}, 1, DType::f32, device);
  return concat({cumsum(ones, 1), cumsum(ones, 0)}, 2).reshape({1, 1, height * width, 2});
}

}  // namespace

InteractiveSegmenter::InteractiveSegmenter(const InteractiveSegmenterConfig& config)
    : config_(checked(config)),
      queries_(config.dim, config.key_dim, 1),
      keys_(config.dim, config.key_dim, 1),
      values_(config.dim, 1, 1) {
  for (int64_t i = 0; i < config.halvings + config.depth; ++i) {
    const bool halves = i < config.halvings;
    constexpr std::array<int64_t, 3> dilations = {1, 2, 4};
    const int64_t dilation = halves ? 1 : dilations[size_t(i - config.halvings) % dilations.size()];
    convolutions_.push_back(std::make_unique<Conv2d>(
        i == 0 ? 3 : config.dim, config.dim, 3,
        ConvOptions{.stride = halves ? 2 : 1, .padding = dilation, .dilation = dilation}, false));
    norms_.push_back(std::make_unique<BatchNorm2d>(config.dim));
    const std::string number = std::to_string(i);
    add_module("convolutions." + number, *convolutions_.back());
    add_module("norms." + number, *norms_.back());
  }
  add_module("queries", queries_);
  add_module("keys", keys_);
  add_module("values", values_);
  if (config.prior == UnitPrior::learned) add_parameter("prior.weight", prior_, {1, config.key_dim});
  if (config.place_unit > 0) add_parameter("log_place", log_place_, {1});
  add_parameter("log_beta", log_beta_, {1});
  add_parameter("log_scale", log_scale_, {1});
  add_parameter("bias", bias_, {1});
}

// [B, dim, h, w] to f32 [B, 1, h * w, width of the projection].
Tensor InteractiveSegmenter::rows(const Conv2d& projection, const Tensor& x) const {
  const Tensor y = projection(x).to(DType::f32);
  return y.permute({0, 2, 3, 1}).reshape({y.size(0), 1, y.size(2) * y.size(3), y.size(1)});
}

InteractiveSegmenter::Looked InteractiveSegmenter::look(const Tensor& images) const {
  if (images.ndim() != 4 || images.size(1) != 3 || images.size(2) % config_.token() != 0 ||
      images.size(3) % config_.token() != 0)
    fail("interactive segmenter", "got images " + images.str() +
                                      ", need [batch, 3, height, width] with sides that "
                                      "are multiples of " +
                                      std::to_string(config_.token()));
  Tensor x = images;
  for (size_t i = 0; i < convolutions_.size(); ++i) {
    const Tensor y = relu((*norms_[i])((*convolutions_[i])(x)));
    x = i < size_t(config_.halvings) ? y : x + y;
  }
  const auto number = [&](double value) { return full({1}, value, DType::f32, x.device()); };
  Looked looked{{rows(keys_, x), tanh(rows(values_, x)), {}}, rows(queries_, x), x.size(2), x.size(3)};
  GaussianUnits& units = looked.units;
  units.alpha = number(config_.alpha > 0 ? config_.alpha : 1 / std::sqrt(double(config_.key_dim)));
  if (config_.prior == UnitPrior::learned)
    units.log_prior = matmul(units.keys, prior_.transpose(0, 1)).reshape({x.size(0), 1, units.keys.size(2)});
  if (config_.place_unit > 0) {
    const double pixels = double(config_.token()) / double(config_.place_unit);
    const Tensor at =
        places(looked.height, looked.width, x.device()) * (exp(log_place_) * (first_place * pixels));
    const Tensor of_all = at.expand({x.size(0), 1, at.size(2), 2});
    units.keys = concat({units.keys, of_all}, 3);
    looked.queries = concat({looked.queries, of_all}, 3);
  }
  if (config_.prior == UnitPrior::magnitude) units.log_prior = magnitude_prior(units.keys, units.alpha);
  if (const ClickAnswers& a = config_.answers; a.key_iterations > 0)
    units = adapt_keys(units, looked.queries, {a.key_iterations, number(a.theta), a.centre, a.refresh_prior});
  return looked;
}

Tensor InteractiveSegmenter::answer(const Looked& looked, const TokenClicks& clicks) const {
  const Tensor& queries = looked.queries;
  const int64_t batch = queries.size(0), tokens = queries.size(2), width = queries.size(3);
  const int64_t count = clicks.tokens.size(1);
  if (clicks.tokens.shape() != Shape{batch, count} || clicks.values.shape() != Shape{batch, count} ||
      clicks.clicked.shape() != Shape{batch, tokens})
    fail("interactive segmenter", "got clicks " + clicks.tokens.str() + ", " + clicks.values.str() + " and " +
                                      clicks.clicked.str() + " for queries " + queries.str());
  GaussianUnits units = looked.units;
  if (config_.answers.propagate) {
    const Tensor rows = clicks.tokens.reshape({batch, 1, count, 1}).expand({batch, 1, count, width});
    const Tensor theta = full({1}, 1, DType::f32, queries.device());
    units = propagate_values(units, gather(queries, 2, rows), clicks.values.reshape({batch, 1, count, 1}),
                             abs(clicks.values).reshape({batch, 1, count}),
                             {1, theta, exp(log_beta_) * first_beta(tokens)});
  }
  Tensor value = expected_values(units, queries).reshape({batch, tokens});
  if (config_.answers.clamp) value = where(clicks.clicked != 0.0, clicks.clicked, value);
  return (value * (exp(log_scale_) * first_scale) + bias_).reshape({batch, 1, looked.height, looked.width});
}

}  // namespace pursuit::nn
