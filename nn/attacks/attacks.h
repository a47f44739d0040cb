#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/base/streams.h"
#include "engine/core/tensor.h"

// Gradient-based and gradient-free attacks on a classifier; all are untargeted. They need only the
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

// Each attack takes f32 images x [B, C, H, W] and returns changed ones.

// Fast gradient sign method (Goodfellow et al. 2015): one step of eps in l_inf.
Tensor fgsm(const Victim& victim, const Tensor& x, double eps);

// Projected gradient descent (Madry et al. 2018) in l_inf, from a uniform random start in the ball.
struct PgdOptions {
  int steps = 20;
  double step = 0.15;  // relative to eps
};
Tensor pgd(const Victim& victim, const Tensor& x, double eps, const PgdOptions& options = {});

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

// Carlini & Wagner 2017, l2: Adam on |x' - x|^2 + c max(margin + confidence, 0), with a search for the
// smallest c that succeeds. With `clip` it optimises w with x' = (tanh w + 1) / 2, otherwise x' itself.
// Images without success are returned unchanged. Learning rate, steps, searches and c are those of the
// published RPC scripts. These ask for a confidence of 10 towards the model's own prediction, which is not an
// attack; here success means any other class, by `confidence` logits.
struct CwOptions {
  double confidence = 0, lr = 0.1;
  int steps = 10, searches = 5;
  double c = 0.01;
};
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

// Parameters of `attack`.
struct Settings {
  std::string name;
  double budget = 0;  // fgsm, pgd: eps in 1/255
  // false, as in the published RPC evaluation: budgets apply to normalised images without clipping, and
  // labels are the model's own predictions on clean images. true: budgets apply to pixels in [0, 1], to which
  // the result is clipped, and labels are the true ones.
  bool pixel = false;
  std::vector<double> mean, std;  // of the normalisation, per channel
  PgdOptions pgd;
  SpsaOptions spsa;
  CwOptions cw;
  SldOptions sld;
  double noise = 0.3;
  uint64_t seed = 0;
};

const std::vector<std::string>& names();
bool has_budgets(const std::string& attack);  // fgsm and pgd

// The eps or amplitude of an attack whose budget is fixed; 0 for cw, which is unbounded.
double fixed_budget(const Settings& settings);

// The remaining parameters of the attack: "20 steps of 0.15 of the budget".
std::string describe(const Settings& settings);

// Takes and returns normalised images; `pictures` are their indices, as in Victim. Throws Error for an
// unknown name, listing the names, and if a gradient is not finite.
Tensor attack(const Logits& logits, const Tensor& images, const Tensor& labels, const Settings& settings,
              const std::vector<int64_t>& pictures = {});

// The sum over images of |after - before| in l2, in the settings' space.
double perturbation_length(const Tensor& before, const Tensor& after, const Settings& settings);

}  // namespace pursuit::attacks
