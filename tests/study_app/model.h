#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

#include "engine/base/random.h"
#include "nn/layers.h"

// The model and the data of the app.
namespace pursuit::spirals {

struct NetConfig {
  int64_t hidden = 32;
};

// Points [B, 2] to logits [B, 2].
class Net : public nn::Callable<Net> {
 public:
  explicit Net(const NetConfig& c) : fc1_(2, c.hidden), fc2_(c.hidden, c.hidden), head_(c.hidden, 2) {
    add_module("fc1", fc1_);
    add_module("fc2", fc2_);
    add_module("head", head_);
  }
  Tensor forward(const Tensor& points) const { return head_(relu(fc2_(relu(fc1_(points))))); }

 private:
  nn::Linear fc1_, fc2_, head_;
};

// Points on two interleaved spirals, labelled with their spiral.
struct Points {
  std::vector<float> xy;        // [count, 2]
  std::vector<int64_t> labels;  // [count]
};
inline Points draw_points(int64_t count, double turns, Random random) {
  Points p;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t label = random.below(2);
    const double radius = std::sqrt(random.uniform()), angle = 2 * M_PI * turns * radius + M_PI * label;
    for (const double part : {std::cos(angle), std::sin(angle)})
      p.xy.push_back(float(radius * part + 0.02 * random.normal()));
    p.labels.push_back(label);
  }
  return p;
}

}  // namespace pursuit::spirals
