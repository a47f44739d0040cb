#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "apps/pca/setting.h"

namespace pursuit::pca {

// What an experiment's curves go over: the iterations of one training, or a sweep over L or d of which the
// end of every training is shown.
enum class Axis { iteration, length, dim };
inline std::vector<Choice<Axis>> choices_of(Axis) {
  return {{"iteration", Axis::iteration}, {"L", Axis::length}, {"d", Axis::dim}};
}

struct Experiment {
  std::string name;   // of its files: the figure, "2" for the exact half of figure 2, or "4b-script"
  std::string title;  // "Softmax, prompts of 100 tokens"
  Setting setting;    // lambda and learning rate of a sweep over d are factors, see setting_at
  Axis axis = Axis::iteration;
  std::vector<int64_t> values = {};  // of a sweep
};

// The experiments of the published figures. `full`: with the published numbers of prompts and runs, otherwise
// 30 x 30 prompts a step in context and four runs in figures 5 and 8.
std::vector<Experiment> all_experiments(bool full);

struct Figure {
  std::string name, title;
  std::vector<std::string> experiments;  // 4b-script only on request
};
const std::vector<Figure>& all_figures();

// The figures called so, in order; "all" stands for all. Throws Error that lists the names.
std::vector<Figure> figures_named(const std::vector<std::string>& names);
// Throws Error if no experiment has the name.
Experiment experiment_named(const std::string& name, bool full);

// The setting of one point of a sweep. Over d, lambda is divided by d and the learning rate by d^2, and L
// (linear) or n (in context) is d.
Setting setting_at(const Experiment& experiment, int64_t value);

}  // namespace pursuit::pca
