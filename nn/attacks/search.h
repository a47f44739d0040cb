#pragma once
#include <functional>
#include <vector>

#include "engine/base/random.h"
#include "nn/attacks/parts.h"

// Attacks that search until the model is wrong: what they share. They keep pictures as f32 rows on the host
// and the model sees those that it still gets right.
namespace pursuit::attacks {

using Row = std::vector<float>;  // a picture, [C * H * W]

// The logits of one picture and its true class.
struct Scores {
  const float* logits;
  int64_t classes, label;
  double margin() const { return margin_of(logits, classes, label).value; }
};

// Pictures under attack and what is asked of the model about them.
class Search {
 public:
  // x [B, C, H, W], f32.
  Search(const Victim& victim, const Tensor& x);

  int64_t size() const { return int64_t(origins_.size()); }
  int64_t channels() const { return shape_[1]; }
  int64_t height() const { return shape_[2]; }
  int64_t width() const { return shape_[3]; }
  int64_t classes() const { return classes_; }
  bool clips() const { return victim_.clip; }
  const Row& origin(int64_t picture) const { return origins_[size_t(picture)]; }
  // The classes of a picture without its label, the one with the highest logit first.
  std::vector<int64_t> other_classes(int64_t picture) const;

  // The pictures that the model gets right so far.
  std::vector<int64_t> right() const;
  bool is_right(int64_t picture) const { return found_[size_t(picture)].empty(); }
  // Notes that the model is wrong on this form of the picture.
  void found(int64_t picture, const Row& form) { found_[size_t(picture)] = form; }
  // The forms found; the pictures themselves where there is none.
  Tensor result() const;

  // Shows the model points[i], a form of pictures[i], and calls judge(i, its scores).
  using Judge = std::function<void(int64_t i, const Scores&)>;
  void ask(const std::vector<int64_t>& pictures, const std::vector<Row>& points, const Judge& judge) const;
  // The same, and returns the gradient with respect to each point of the function whose slope with respect to
  // the logits [classes] judge writes.
  using Slope = std::function<void(int64_t i, const Scores&, float* slope)>;
  std::vector<Row> climb(const std::vector<int64_t>& pictures, const std::vector<Row>& points,
                         const Slope& judge) const;

  // Moves a point into the ball of radius eps around the picture, and into [0, 1] if the victim clips.
  void project(Row& point, int64_t picture, Norm norm, double eps) const;
  // A random point on the surface of that ball, or drawn evenly from all of it, projected; by the picture's
  // random stream i of the steps.
  enum class Part { surface, ball };
  Row start(int64_t picture, Norm norm, double eps, uint64_t i, Part part = Part::surface) const;
  // A random number generator of the picture's own.
  Random random(int64_t picture, const streams::Range& draws, uint64_t i = 0) const;

 private:
  // Throws Error unless all are finite: no comparison with NaN holds, and the model would pass for robust.
  std::vector<Row> logits_at(const Tensor& forms) const;

  Tensor batch(const std::vector<Row>& points) const;

  const Victim& victim_;
  Tensor x_;
  Shape shape_;
  int64_t classes_ = 0;
  std::vector<int64_t> labels_;
  std::vector<Row> origins_, found_, logits_;
};

double length(const Row& row, Norm norm);

// Returns the cross-entropy and writes its slope with respect to the logits.
double cross_entropy(const Scores& scores, float* slope);

// The classes that can be aimed at: of `wanted`, no more than there are beside the label. classes 0: not known.
int64_t possible_targets(int64_t wanted, int64_t classes);

// Throws Error if so many starts of a picture (targets times restarts) have no random streams of their own.
void check_starts(int64_t starts);

}  // namespace pursuit::attacks
