#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/base/streams.h"
#include "engine/core/tensor.h"

// Attacks on a classifier through the engine's own gradients. All are untargeted. Only the gradient with
// respect to the pictures is used; take the model's parameters off the tape first, or theirs is computed as
// well.
namespace pursuit::attacks {

using Logits = std::function<Tensor(const Tensor& images)>;  // [B, C, H, W] to [B, classes]

// What an attack works on. Chance is a function of the seed and of a picture's number, so that neither the
// batch size nor the choice of pictures changes what is drawn for one of them.
struct Victim {
  Logits logits;
  Tensor labels;      // i64 [B], to get away from
  bool clip = false;  // pictures stay in [0, 1]
  uint64_t seed = 0;
  std::vector<int64_t> pictures = {};  // their numbers [B]; empty: 0, 1, ...
  int64_t number(int64_t row) const { return pictures.empty() ? row : pictures[size_t(row)]; }
};

// Each takes f32 pictures x [B, C, H, W] and gives changed ones.

// Fast gradient sign method (Goodfellow et al. 2015): one step of eps, l_inf.
Tensor fgsm(const Victim& victim, const Tensor& x, double eps);

// Projected gradient descent (Madry et al. 2018), l_inf, from a uniform random start in the ball.
struct PgdOptions {
  int steps = 20;
  double step = 0.15;  // of eps
};
Tensor pgd(const Victim& victim, const Tensor& x, double eps, const PgdOptions& options = {});

// Simultaneous perturbation stochastic approximation (Uesato et al. 2018), l_inf, without gradients: Adam on
// an estimate of the margin's slope from random sign vectors and their negatives, picture by picture.
struct SpsaOptions {
  double eps = 0.1;
  int steps = 40;  // at most max_spsa_steps
  double lr = 0.01, delta = 0.01;
  int samples = 128;  // sign vectors a step; the model sees twice as many pictures
};
// Every step draws from a stream of its own; a picture's next stream after the last is the next picture's.
inline constexpr int max_spsa_steps = int(streams::attack::spsa_steps.size());
Tensor spsa(const Victim& victim, const Tensor& x, const SpsaOptions& options = {});

// The pictures that a step of spsa asks the model for, on shapes alone: x is [1, C, H, W].
void spsa_on_shapes(const Logits& logits, const Tensor& x, int samples);

// Carlini & Wagner 2017, l2: Adam on |x' - x|^2 + c max(margin + confidence, 0), and a search for the
// smallest c that works. With `clip` over w, x' = (tanh w + 1) / 2, else over x' itself. A picture without
// success comes back as it was. Learning rate, steps, searches and c are those of the published RPC scripts;
// they ask for a confidence of 10 towards the model's own prediction, which is no attack: here a success is
// any other class, by `confidence` logits.
struct CwOptions {
  double confidence = 0, lr = 0.1;
  int steps = 10, searches = 5;
  double c = 0.01;
};
Tensor cw(const Victim& victim, const Tensor& x, const CwOptions& options = {});

// Sparse l1 descent (Tramer & Boneh 2019): a step moves the share of the entries whose slope is steepest, by
// step / their number each; the sum is projected onto the l1 ball of radius eps (Duchi et al. 2008).
struct SldOptions {
  double eps = 10, step = 1;
  int steps = 20;
  double share = 0.01;
};
Tensor sld(const Victim& victim, const Tensor& x, const SldOptions& options = {});

// Uniform in +-amplitude, independent in every entry.
Tensor noise(const Victim& victim, const Tensor& x, double amplitude = 0.3);

// How `attack` is carried out.
struct Settings {
  std::string name;
  double budget = 0;  // fgsm, pgd: eps in 1/255
  // false, as in the published RPC evaluation: budgets apply to normalised pictures, nothing is clipped,
  // labels are the model's own predictions on the clean pictures. true: budgets apply to pixels in [0, 1], to
  // which the result is clipped, and labels are the true ones.
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

// The budget of an attack that has none to choose: its eps or amplitude; 0 for cw, which has no bound.
double fixed_budget(const Settings& settings);

// What beside attack, space, budget and seed decides on the result: "20 steps of 0.15 of the budget".
std::string describe(const Settings& settings);

// Normalised pictures in, normalised pictures out; `pictures` are their numbers, as Victim has them. Throws
// Error for an unknown name, with the list, and if a gradient is not finite.
Tensor attack(const Logits& logits, const Tensor& images, const Tensor& labels, const Settings& settings,
              const std::vector<int64_t>& pictures = {});

// The sum over pictures of the l2 length of after - before, in the settings' space.
double perturbation_length(const Tensor& before, const Tensor& after, const Settings& settings);

}  // namespace pursuit::attacks
