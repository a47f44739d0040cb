#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "nn/optim.h"
#include "nn/schedule.h"
#include "nn/vit.h"

namespace CLI {
class App;
}

namespace pursuit::classify {

// Everything that makes a run what it is: the options of `classify train`, also as the files in recipes/ and
// as config.json in a run's folder, where it is all that resume, eval and predict need to know.
struct Config {
  // model
  std::string attention = "softmax";
  int64_t image_size = 0;  // 0: the data's own size for small pictures, else 224
  int64_t patch = 0;       // 0: 4 up to 64 pixels, else 16
  int64_t dim = 192, depth = 12, heads = 3;
  double mlp_ratio = 4, dropout = 0, drop_path = 0.1;
  std::string init = "timm";
  // iterated attention (rpc, svt), see RpcOptions
  int iterations = 4, layer = 0;
  double lambda = 4;
  std::string threshold = "product", mu_width = "model", dual_sign = "minus";
  bool detach_mu = false, shrink_every_iteration = true;

  // data
  std::string data;  // empty: the built-in synthetic shapes
  std::string format = "auto";
  std::vector<std::string> train_files, test_files;
  int64_t limit = 0, test_limit = 0;
  bool skip_bad = false;
  int64_t cache_mib = 512;

  // augmentation
  std::string crop = "auto";  // auto, none, padded, resized
  int crop_padding = 0;       // padded: 0 is an eighth of the size
  double flip = 0.5;
  bool rand_augment = false;
  double colour_jitter = 0, random_erasing = 0, mixup = 0, cutmix = 0, label_smoothing = 0.1;
  int64_t repeats = 1;

  // optimisation
  int64_t epochs = 10, steps = 0;  // steps > 0 ends the run earlier, whatever the epochs
  int64_t batch_size = 128, eval_batch_size = 256;
  std::string optimizer = "adamw", schedule = "cosine";
  double lr = 1e-3, min_lr = 1e-5, warmup_lr = 1e-6, warmup_epochs = 1;
  std::string lr_step = "batch";  // batch, or epoch as the published recipe
  double weight_decay = 0.05, clip_norm = 0, ema = 0;

  // run
  std::string dtype = "f32", device = "auto";
  uint64_t seed = 0;
  int threads = 0, workers = 1;
  double checkpoint_seconds = 30;
  int64_t checkpoint_steps = 0;  // 0: by time only
  double eval_every = 1;         // epochs

  // filled in when the data is opened
  int64_t channels = 0;
  std::vector<std::string> classes;
  std::vector<double> mean, std;
};

// Adds the options of `train` to a subcommand; every one names a member of Config.
void add_config_options(CLI::App& app, Config& config);

nlohmann::ordered_json to_json(const Config& config);
Config config_from_json(const nlohmann::ordered_json& json, const std::string& file);

// "--name=value" for every entry of a recipe: the name of a file in recipes/ or a path. Throws with the list
// of names.
std::vector<std::string> recipe_arguments(const std::string& name);
std::vector<std::string> recipe_names();

nn::VitConfig vit_config(const Config& config);
nn::OptimizerConfig optimizer_config(const Config& config);
// Checks values that no option checks by itself; throws Error that names the option.
void validate(const Config& config);

}  // namespace pursuit::classify
