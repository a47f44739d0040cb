#pragma once
#include <memory>
#include <vector>

#include "nn/attention/probabilistic.h"
#include "nn/convolution.h"
#include "nn/norms.h"

namespace pursuit::nn {

// How clicks are answered. A trained model may be told other answers: they have no parameters.
struct ClickAnswers {
  int key_iterations = 0;  // EM iterations that adapt the keys to the queries
  double theta = 1;        // precision of the adapted keys' prior
  PriorCentre centre = PriorCentre::fixed;
  bool refresh_prior = false;
  bool propagate = true;  // clicks move the units' values
  bool clamp = true;      // the output at a clicked token is the click's
};

struct InteractiveSegmenterConfig {
  int64_t halvings = 1;  // convolutions of stride 2: a token is 2^halvings pixels wide
  int64_t dim = 48;      // channels
  int64_t depth = 2;     // residual blocks of tokens; their dilations are 1, 2, 4, 1, 2, 4, ...
  int64_t key_dim = 32;  // width of queries and keys
  // Units are Gaussians of a token's place too. Places are measured in this many pixels; 0: they do not
  // count.
  int64_t place_unit = 0;

  UnitPrior prior = UnitPrior::uniform;
  double alpha = 0;  // precision of queries around keys; 0: 1 / sqrt(key_dim)
  ClickAnswers answers = {};

  int64_t token() const { return int64_t(1) << halvings; }  // its side in pixels
};

// Clicks on B pictures of N tokens, up to A each.
struct TokenClicks {
  Tensor tokens;   // i64 [B, A], row by row; 0 in rows that fill up the tensor
  Tensor values;   // f32 [B, A]: 1 into the object, -1 beside it, 0 in rows that fill up the tensor
  Tensor clicked;  // f32 [B, N]: the value of the last click on a token, 0 where there is none
};

// Segments the object that a user clicks on, with a network that does not see the clicks: convolutions give
// every token a query, and a unit of a Gaussian mixture with a key and a value in [-1, 1]
// (nn/attention/probabilistic.h). Clicks are known values of tokens. They move the values of the units that
// the clicked queries belong to, and with them the tokens alike, so that a picture is looked at once however
// many clicks follow.
class InteractiveSegmenter : public Callable<InteractiveSegmenter> {
 public:
  explicit InteractiveSegmenter(const InteractiveSegmenterConfig& config);

  // A picture as its tokens.
  struct Looked {
    GaussianUnits units;            // with adapted keys; f32 [B, 1, N, key_dim (+ 2)] and [B, 1, N, 1]
    Tensor queries;                 // f32 [B, 1, N, key_dim (+ 2)]
    int64_t height = 0, width = 0;  // of the grid of tokens; N is their product
  };
  // Images [B, 3, H, W], normalised, whose sides are multiples of a token.
  Looked look(const Tensor& images) const;
  // Logits of the object [B, 1, H / token, W / token].
  Tensor answer(const Looked& looked, const TokenClicks& clicks) const;
  Tensor forward(const Tensor& images, const TokenClicks& clicks) const {
    return answer(look(images), clicks);
  }

  void set_answers(const ClickAnswers& answers) { config_.answers = answers; }
  const InteractiveSegmenterConfig& config() const { return config_; }

 private:
  Tensor rows(const Conv2d& projection, const Tensor& x) const;

  InteractiveSegmenterConfig config_;
  std::vector<std::unique_ptr<Conv2d>> convolutions_;  // of stride 2, then of the residual blocks
  std::vector<std::unique_ptr<BatchNorm2d>> norms_;
  Conv2d queries_, keys_, values_;
  Tensor prior_;                                    // [1, key_dim]
  Tensor log_place_, log_beta_, log_scale_, bias_;  // [1]
};

}  // namespace pursuit::nn
