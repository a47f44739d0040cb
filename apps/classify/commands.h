#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "apps/classify/config.h"
#include "apps/pictures/evaluation.h"
#include "apps/pictures/predictions.h"
#include "apps/study/quantize_command.h"
#include "apps/training/training_run.h"
#include "data/shards.h"
#include "nn/attacks/registry.h"

// The subcommands. Each returns the process's exit code: 0 done, 1 failed, 2 wrong usage.
namespace pursuit::classify {

int train(const Config& config, const apps::RunOptions& options,
          distributed::Communicator& ranks = distributed::alone());

enum class AttackSpace { normalised, pixel };
inline std::vector<Choice<AttackSpace>> choices_of(AttackSpace) {
  return {{"normalised", AttackSpace::normalised, "as published: no clipping, labels from the model"},
          {"pixel", AttackSpace::pixel, "clipped to the valid range, true labels"}};
}

inline const std::vector<double> usual_budgets = {1, 2, 3, 4, 5, 6}, usual_l2_budgets = {0.25, 0.5, 1};

struct EvalOptions : apps::PictureEvalOptions {
  std::vector<std::string> test_files, attacks;
  std::string classes;             // file or folder with the names of the model's classes; empty: the run's
  std::string outliers;            // data set of pictures of no class
  std::vector<double> budgets;     // l_inf radii, in 1/255; empty: usual_budgets
  std::vector<double> l2_budgets;  // l2 radii; empty: usual_l2_budgets
  std::map<std::string, nn::OptionValues> attack_options;  // those given, by attack
  std::string attack_records;                              // file; empty: none
  std::string attacked_by;     // run whose model is attacked; empty: the evaluated one
  bool masking_check = false;  // see attack_runs.h
  AttackSpace attack_space = AttackSpace::normalised;
  data::Split split = data::Split::test;
  int64_t attack_limit = 0;  // pictures; 0: the evaluated ones
  int workers = 1;
};
int eval(const EvalOptions& options);

struct PredictOptions : apps::PicturePredictOptions {
  int top = 5, block = -1;
};
int predict(const PredictOptions& options);

int quantize(const apps::QuantizeOptions& options);

struct PackOptions {
  std::string data, out, format = "auto";
  data::Packing packing = data::Packing::files;
  std::optional<int> shorter = {};  // raw; by default 256
  int64_t shard_mib = 1024;
  bool skip_bad = false;
};
// Packs both splits of a data set into shards.
int pack(const PackOptions& options);

// Makes the run folder `out` from a safetensors file. A file written by `export` carries its config; of the
// options `given` on the command line only --data may then differ. Throws Error if another one does.
int import_weights(const std::string& file, const std::string& out, Config config,
                   const std::vector<std::string>& given = {});

}  // namespace pursuit::classify
