#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/base/choice.h"
#include "engine/base/streams.h"
#include "engine/core/tensor.h"

// Gradient-based and gradient-free attacks on a classifier. They need only the
// gradient with respect to the images: detach the model's parameters first, or their gradients are
// computed too.
namespace pursuit::attacks {

using Logits = std::function<Tensor(const Tensor& images)>;  // [B, C, H, W] to [B, classes]

// The attacked model and labels. Random numbers depend only on the seed and on an image's index, so they
// change neither with the batch size nor with the choice of images.
struct Victim {
  Logits logits;
  Tensor labels;      // i64 [B], the classes to move away from
  bool clip = false;  // keep images in [0, 1]
  uint64_t seed = 0;
  std::vector<int64_t> pictures = {};  // indices of the images [B]; empty: 0, 1, ...
  int64_t number(int64_t row) const { return pictures.empty() ? row : pictures[size_t(row)]; }
};

// The norm of a change of an image, in whose ball an attack stays.
enum class Norm { linf, l2 };
inline std::vector<Choice<Norm>> choices_of(Norm) { return {{"linf", Norm::linf}, {"l2", Norm::l2}}; }

// Each attack takes f32 images x [B, C, H, W] and returns changed ones. Attacks that search until the model
// is wrong (pgd_l2, apgd, square, fab, autoattack) return images unchanged where they fail.

// Fast gradient sign method (Goodfellow et al. 2015): one step of eps in l_inf.
Tensor fgsm(const Victim& victim, const Tensor& x, double eps);

// Projected gradient descent (Madry et al. 2018) in l_inf, from a uniform random start in the ball.
struct PgdOptions {
  int steps = 20;
  double step = 0.15;  // relative to eps
};
Tensor pgd(const Victim& victim, const Tensor& x, double eps, const PgdOptions& options = {});

// Momentum iterative method (Dong et al. 2018) in l_inf: steps of eps / steps along the sign of the
// accumulated gradient, each divided by the mean of its absolute values.
struct MimOptions {
  int steps = 10;
  double decay = 1;
};
Tensor mim(const Victim& victim, const Tensor& x, double eps, const MimOptions& options = {});

// Projected gradient descent in l2, from random points in the ball.
struct PgdL2Options {
  int steps = 20;
  double step = 0.15;  // relative to eps
  int restarts = 1;    // starts, for the images that the model still gets right
};
Tensor pgd_l2(const Victim& victim, const Tensor& x, double eps, const PgdL2Options& options = {});

// Simultaneous perturbation stochastic approximation (Uesato et al. 2018) in l_inf, without gradients: Adam
// on an estimate of the margin's slope from random sign vectors and their negatives, one image at a time.
struct SpsaOptions {
  double eps = 0.1;
  int steps = 40;  // at most max_spsa_steps
  double lr = 0.01, delta = 0.01;
  int samples = 128;  // sign vectors per step; the model sees twice as many images
};
// Every step draws from its own stream. After the last one come the streams of the next image.
inline constexpr int max_spsa_steps = int(streams::attack::spsa_steps.size());
Tensor spsa(const Victim& victim, const Tensor& x, const SpsaOptions& options = {});

// Runs the model on the images of one spsa step, for shapes only: x is [1, C, H, W].
void spsa_on_shapes(const Logits& logits, const Tensor& x, int samples);

// Carlini & Wagner 2017, l2: Adam on |x' - x|^2 + c max(confidence - lead, 0), with a search for the smallest
// c that succeeds: a factor of 10 until one does, then bisection. The lead, in logits, is that of the best
// other class over the label or, with a target, of the target over the best other class; success is a lead
// above `confidence`. With `clip` it optimises w with x' = (tanh w + 1) / 2, otherwise x' itself. Images
// without success are returned unchanged. Learning rate, steps, searches and c are those of the published RPC
// scripts, which aim with a confidence of 10 at the model's own prediction: Target::own, which is not an
// attack.
struct CwOptions {
  enum class Target { none, second, least, own } target = Target::none;
  double confidence = 0, lr = 0.1;
  int steps = 10, searches = 5;
  double c = 0.01;
};
inline std::vector<Choice<CwOptions::Target>> choices_of(CwOptions::Target) {
  return {{"none", CwOptions::Target::none, "away from the label"},
          {"second", CwOptions::Target::second, "the likeliest other class"},
          {"least", CwOptions::Target::least, "the least likely class"},
          {"own", CwOptions::Target::own, "the label itself, as in the published scripts"}};
}
// Those of Carlini and Wagner's own program and of foolbox, with a tenth of their 10000 steps.
inline constexpr CwOptions usual_cw = {.lr = 0.01, .steps = 1000, .searches = 9, .c = 0.001};
Tensor cw(const Victim& victim, const Tensor& x, const CwOptions& options = {});

// Sparse l1 descent (Tramer & Boneh 2019): each step moves the given share of entries, those with the
// steepest slope, by step / their number each; the total is projected onto the l1 ball of eps (Duchi 2008).
struct SldOptions {
  double eps = 10, step = 1;
  int steps = 20;
  double share = 0.01;
};
Tensor sld(const Victim& victim, const Tensor& x, const SldOptions& options = {});

// Uniform noise in +-amplitude, independent in every entry.
Tensor noise(const Victim& victim, const Tensor& x, double amplitude = 0.3);

// Auto-PGD (Croce & Hein 2020, "Reliable evaluation of adversarial robustness with an ensemble of diverse
// parameter-free attacks", algorithm 1): projected gradient ascent with momentum 0.75 from a random point on
// the ball's surface. The first step is 2 eps long. At checkpoints a picture's step is halved, and it goes on
// from its best point, where too few steps have raised the loss, or none since the last checkpoint.
struct ApgdOptions {
  enum class Loss {
    cross_entropy,
    dlr  // difference of logits ratio, which does not change if all logits are scaled; at least 3 classes
  } loss = Loss::cross_entropy;
  Norm norm = Norm::linf;
  int steps = 100;
  int restarts = 1;  // further random starts for the pictures that are still right
  int targets =
      0;  // above 0, APGD-T: the targeted dlr towards so many other classes instead; at least 4 classes
  double rho = 0.75;  // the share of steps that have to raise the loss
};
inline std::vector<Choice<ApgdOptions::Loss>> choices_of(ApgdOptions::Loss) {
  return {{"cross-entropy", ApgdOptions::Loss::cross_entropy}, {"dlr", ApgdOptions::Loss::dlr}};
}

Tensor apgd(const Victim& victim, const Tensor& x, double eps, const ApgdOptions& options = {});

// Square Attack (Andriushchenko et al. 2020): random search without gradients. It starts from vertical
// stripes of +-eps (l_inf, algorithm 2) or a grid of tiles (l2, algorithm 3), changes a square at a random
// place in every query, and keeps what lowers the margin. The square's area starts as `share` of the picture
// and is halved after 10, 50, 200, 500, 1000, 2000, 4000, 6000 and 8000 queries.
struct SquareOptions {
  Norm norm = Norm::linf;
  int queries = 5000;  // at most max_square_queries
  double share = 0.8;
  bool rescale = false;        // the halvings happen at these places of 10000, scaled to `queries`
  bool inner_windows = false;  // as in the published code, no window reaches the last row or column
};
inline constexpr int max_square_queries = int(streams::attack::spsa_steps.size()) - 1;

Tensor square(const Victim& victim, const Tensor& x, double eps, const SquareOptions& options = {});

// FAB-T (Croce & Hein 2020, "Minimally distorted adversarial examples with a fast adaptive boundary attack",
// targeted): steps to where the model, linearised, cannot tell the label from another class, and back towards
// the image wherever the model is wrong.
struct FabOptions {
  Norm norm = Norm::linf;
  int steps = 100;
  int targets = 9;   // other classes, of the highest logits, one after the other
  int restarts = 1;  // starts a target, all but the first random
  double bias = 0.1, overshoot = 1.05, back = 0.9;  // alpha_max, eta and beta of the paper
};
Tensor fab(const Victim& victim, const Tensor& x, double eps, const FabOptions& options = {});

// AutoAttack's standard ensemble (Croce & Hein 2020): apgd, apgd with 9 targets, fab and square, each on the
// images that the model still gets right.
Tensor autoattack(const Victim& victim, const Tensor& x, double eps, Norm norm = Norm::linf,
                  int queries = 5000);

}  // namespace pursuit::attacks
