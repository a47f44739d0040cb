#pragma once
#include <map>
#include <string>
#include <vector>

#include "apps/pictures/evaluation.h"
#include "apps/pictures/predictions.h"
#include "apps/segment/predictor.h"
#include "apps/training/training_run.h"
#include "nn/options.h"

// The subcommands. Each returns the process's exit code: 0 done, 1 failed, 2 wrong usage.
namespace pursuit::segment {

int train(const Config& config, const apps::RunOptions& options,
          distributed::Communicator& ranks = distributed::alone());

struct EvalOptions : apps::PictureEvalOptions {
  ViewOptions views;
  data::Split split = data::Split::test;
  std::string save_predictions;  // folder
  std::vector<std::string> attacks;
  std::vector<double> budgets = {1, 2, 4};                 // l_inf radii in 1/255
  std::map<std::string, nn::OptionValues> attack_options;  // those given, by attack
  int64_t attack_limit = 0;                                // pictures; 0: the evaluated ones
};
const std::vector<std::string>& attack_names();  // those in l_inf that follow the loss of all pixels
int eval(const EvalOptions& options);

struct PredictOptions : apps::PicturePredictOptions {
  ViewOptions views;
  int64_t batch_size = 0;  // windows; 0: the run's evaluation batch size
  double opacity = 0.5;    // weight of the mask in the overlay
};
int predict(const PredictOptions& options);

}  // namespace pursuit::segment
