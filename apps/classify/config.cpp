#include "apps/classify/config.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "engine/error.h"

namespace pursuit::classify {

namespace {

namespace fs = std::filesystem;

using Json = nlohmann::ordered_json;

// The one list of what a config holds: f(option name, member, help) for each.
template <class C, class F>
void for_each_field(C& c, const F& f) {
  f("attention", c.attention,
    "Attention kind: softmax, symmetric, rpc, svt, scaled-s, scaled-alpha, clipped, gated, linear");
  f("image-size", c.image_size,
    "Side of the model's input in pixels (0: small pictures as they are, else 224)");
  f("patch", c.patch, "Side of a patch in pixels (0: 4 for pictures up to 64 pixels, else 16)");
  f("dim", c.dim, "Width of the model");
  f("depth", c.depth, "Number of blocks");
  f("heads", c.heads, "Attention heads");
  f("mlp-ratio", c.mlp_ratio, "Hidden width of the MLP over the model's width");
  f("dropout", c.dropout, "Dropout rate after the position embedding");
  f("drop-path", c.drop_path, "Drop path rate of the last block (grows linearly from 0)");
  f("init", c.init, "Initial weights: timm (truncated normal 0.02) or pytorch (uniform by fan-in)");
  f("iterations", c.iterations, "rpc, svt: iterations");
  f("layer", c.layer, "rpc, svt: the block that iterates, the others being symmetric (-1: every block)");
  f("lambda", c.lambda, "rpc: weight of the sparse part");
  f("threshold", c.threshold, "rpc: product (tau = lambda mu, the published code) or quotient (lambda / mu)");
  f("mu-width", c.mu_width, "rpc: model or head, the width in mu = N width / (4 |K|_1)");
  f("dual-sign", c.dual_sign, "rpc: minus (the published code) or plus (the exact minimiser)");
  f("detach-mu", c.detach_mu, "rpc: no gradient through mu");
  f("shrink-every-iteration", c.shrink_every_iteration,
    "rpc: soft threshold in every iteration, not only the last");
  f("data", c.data, "Folder with the data set (left out: built-in drawn shapes)");
  f("format", c.format, "Layout of the data: auto, idx, cifar10, folder, synthetic");
  f("train-files", c.train_files, "cifar10: batch files to train on");
  f("test-files", c.test_files, "cifar10: batch files to test on");
  f("limit", c.limit, "Train on this many pictures, evenly spaced (0: all)");
  f("test-limit", c.test_limit, "Test on this many pictures, evenly spaced (0: all)");
  f("skip-bad", c.skip_bad, "Replace damaged pictures by the next good one and count them");
  f("cache-mib", c.cache_mib, "Memory for decoded pictures of image folders, MiB");
  f("crop", c.crop, "Training crop: auto, none, padded (small pictures), resized (random resized crop)");
  f("crop-padding", c.crop_padding, "Pixels of padding for --crop padded (0: an eighth of the side)");
  f("flip", c.flip, "Probability of a horizontal flip");
  f("rand-augment", c.rand_augment, "RandAugment m9-mstd0.5-inc1");
  f("colour-jitter", c.colour_jitter,
    "Strength of colour jitter (0: none; off under RandAugment, as in timm)");
  f("random-erasing", c.random_erasing, "Probability of random erasing");
  f("mixup", c.mixup, "Mixup alpha (0: off)");
  f("cutmix", c.cutmix, "CutMix alpha (0: off)");
  f("label-smoothing", c.label_smoothing, "Label smoothing");
  f("repeats", c.repeats, "Repeated augmentation: variants of a picture per list");
  f("epochs", c.epochs, "Epochs");
  f("steps", c.steps, "Stop after this many steps (0: by epochs)");
  f("batch-size", c.batch_size, "Pictures per step");
  f("eval-batch-size", c.eval_batch_size, "Pictures per batch in evaluation");
  f("optimizer", c.optimizer, "adamw or sgd (Nesterov momentum 0.9)");
  f("schedule", c.schedule, "Learning rate: cosine, polynomial or constant");
  f("lr", c.lr, "Peak learning rate");
  f("min-lr", c.min_lr, "Final learning rate");
  f("warmup-lr", c.warmup_lr, "Learning rate at the first step");
  f("warmup-epochs", c.warmup_epochs, "Epochs of linear warm-up");
  f("lr-step", c.lr_step, "Move the learning rate with every batch or every epoch");
  f("weight-decay", c.weight_decay, "Weight decay of matrices");
  f("clip-norm", c.clip_norm, "Clip the gradient's norm (0: off)");
  f("ema", c.ema, "Decay of the averaged weights (0: off)");
  f("dtype", c.dtype, "f32 or bf16 (weights and optimizer stay f32)");
  f("device", c.device, "auto, cpu, cuda, cuda:1");
  f("seed", c.seed, "Seed of weights, order, augmentation and dropout");
  f("threads", c.threads, "CPU threads (0: all)");
  f("workers", c.workers, "Threads that prepare batches (0: the training thread itself)");
  f("checkpoint-seconds", c.checkpoint_seconds, "Save at least this often, seconds");
  f("checkpoint-steps", c.checkpoint_steps, "Save every so many steps too (0: by time)");
  f("eval-every", c.eval_every, "Evaluate every so many epochs (0: at the end only)");
}

// Filled in by the data, saved but no options.
template <class C, class F>
void for_each_data_field(C& c, const F& f) {
  f("channels", c.channels);
  f("classes", c.classes);
  f("mean", c.mean);
  f("std", c.std);
}

template <class T>
void check_range(const char* option, T value, bool ok, const char* need) {
  std::ostringstream text;
  text << "--" << option << " is " << value << ", need " << need;
  if (!ok) fail("classify", text.str());
}

void check_word(const char* option, const std::string& value, std::initializer_list<const char*> known) {
  std::string list;
  for (const char* k : known) {
    if (value == k) return;
    list += (list.empty() ? "" : ", ") + std::string(k);
  }
  fail("classify", std::string("--") + option + " is '" + value + "', need one of " + list);
}

std::vector<fs::path> recipe_folders() {
  std::vector<fs::path> folders;
  std::error_code error;
  const fs::path exe = fs::read_symlink("/proc/self/exe", error);
  if (!error) folders.push_back(exe.parent_path().parent_path() / "share/pursuit/recipes/classify");
  folders.push_back(PURSUIT_RECIPES);
  return folders;
}

}  // namespace

void add_config_options(CLI::App& app, Config& config) {
  for_each_field(config, [&]<class T>(const char* name, T& member, const char* help) {
    const std::string flag = std::string("--") + name;
    if constexpr (std::is_same_v<T, std::vector<std::string>>)
      app.add_option(flag, member, help)->delimiter(',')->capture_default_str();
    else
      app.add_option(flag, member, help)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
          ->capture_default_str();
  });
}

Json to_json(const Config& config) {
  Json json;
  for_each_field(config, [&](const char* name, const auto& member, const char*) { json[name] = member; });
  for_each_data_field(config, [&](const char* name, const auto& member) { json[name] = member; });
  return json;
}

Config config_from_json(const Json& json, const std::string& file) {
  Config config;
  const auto read = [&](const char* name, auto& member) {
    if (!json.is_object() || !json.contains(name)) return;
    try {
      json.at(name).get_to(member);
    } catch (const std::exception&) {
      fail("config", file + ": '" + name + "' has a value of the wrong type");
    }
  };
  for_each_field(config, [&](const char* name, auto& member, const char*) { read(name, member); });
  for_each_data_field(config, read);
  return config;
}

std::vector<std::string> recipe_names() {
  std::vector<std::string> names;
  for (const fs::path& folder : recipe_folders()) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder, error))
      if (entry.path().extension() == ".toml") names.push_back(entry.path().stem().string());
    if (!names.empty()) break;
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> recipe_arguments(const std::string& name) {
  fs::path file = name;
  for (const fs::path& folder : recipe_folders())
    if (!fs::is_regular_file(file)) file = folder / (name + ".toml");
  if (!fs::is_regular_file(file)) {
    std::string known;
    for (const std::string& n : recipe_names()) known += (known.empty() ? "" : ", ") + n;
    fail("recipe", "there is no recipe '" + name + "'; known are " + known + ", or give the path of a file");
  }
  std::ifstream in(file);
  std::vector<std::string> arguments;
  try {
    for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_config(in)) {
      std::string value;
      for (const std::string& v : item.inputs) value += (value.empty() ? "" : ",") + v;
      arguments.push_back("--" + item.fullname() + "=" + value);
    }
  } catch (const CLI::Error& e) {
    fail("recipe", file.string() + ": " + e.what());
  }
  return arguments;
}

nn::VitConfig vit_config(const Config& c) {
  nn::VitConfig v;
  v.image = c.image_size;
  v.patch = c.patch;
  v.channels = c.channels;
  v.dim = c.dim;
  v.depth = c.depth;
  v.heads = c.heads;
  v.classes = int64_t(c.classes.size());
  v.mlp_ratio = c.mlp_ratio;
  v.dropout = c.dropout;
  v.drop_path = c.drop_path;
  v.iterated_layer = c.layer;
  v.attention.kind = nn::attention_kind(c.attention);
  RpcOptions& rpc = v.attention.rpc;
  rpc.iterations = c.iterations;
  rpc.lambda = c.lambda;
  rpc.threshold = c.threshold == "product" ? RpcOptions::Threshold::product : RpcOptions::Threshold::quotient;
  rpc.mu_width = c.mu_width == "model" ? RpcOptions::MuWidth::model : RpcOptions::MuWidth::head;
  rpc.dual_sign = c.dual_sign == "minus" ? RpcOptions::DualSign::minus : RpcOptions::DualSign::plus;
  rpc.detach_mu = c.detach_mu;
  rpc.shrink_every_iteration = c.shrink_every_iteration;
  return v;
}

nn::OptimizerConfig optimizer_config(const Config& c) {
  nn::OptimizerConfig o;
  o.kind = c.optimizer == "sgd" ? nn::OptimizerConfig::Kind::sgd : nn::OptimizerConfig::Kind::adamw;
  o.weight_decay = c.weight_decay;
  o.clip_norm = c.clip_norm;
  return o;
}

void validate(const Config& c) {
  nn::attention_kind(c.attention);
  check_word("init", c.init, {"timm", "pytorch"});
  check_word("threshold", c.threshold, {"product", "quotient"});
  check_word("mu-width", c.mu_width, {"model", "head"});
  check_word("dual-sign", c.dual_sign, {"minus", "plus"});
  check_word("crop", c.crop, {"auto", "none", "padded", "resized"});
  check_word("optimizer", c.optimizer, {"adamw", "sgd"});
  check_word("schedule", c.schedule, {"cosine", "polynomial", "constant"});
  check_word("lr-step", c.lr_step, {"batch", "epoch"});
  check_word("dtype", c.dtype, {"f32", "bf16"});
  check_range("dim", c.dim, c.dim > 0 && c.heads > 0 && c.dim % c.heads == 0, "a multiple of --heads");
  check_range("depth", c.depth, c.depth > 0, "at least 1");
  check_range("layer", c.layer, c.layer >= -1 && c.layer < c.depth, "-1 or the number of a block");
  check_range("iterations", c.iterations, c.iterations >= 1, "at least 1");
  check_range("lambda", c.lambda, c.lambda > 0, "more than 0");
  check_range("mlp-ratio", c.mlp_ratio, c.mlp_ratio > 0, "more than 0");
  check_range("batch-size", c.batch_size, c.batch_size > 0, "at least 1");
  check_range("eval-batch-size", c.eval_batch_size, c.eval_batch_size > 0, "at least 1");
  check_range("epochs", c.epochs, c.epochs > 0, "at least 1");
  check_range("steps", c.steps, c.steps >= 0, "0 or more");
  check_range("image-size", c.image_size, c.image_size >= 0 && c.image_size <= 4096, "0 to 4096");
  check_range("patch", c.patch, c.patch >= 0, "0 or more");
  check_range("lr", c.lr, c.lr > 0, "more than 0");
  check_range("weight-decay", c.weight_decay, c.weight_decay >= 0, "0 or more");
  check_range("ema", c.ema, c.ema >= 0 && c.ema < 1, "0 up to, not including, 1");
  check_range("threads", c.threads, c.threads >= 0, "0 or more");
  check_range("workers", c.workers, c.workers >= 0, "0 or more");
  check_range("repeats", c.repeats, c.repeats >= 1, "at least 1");
  for (const auto& [name, value] :
       {std::pair{"dropout", c.dropout}, {"drop-path", c.drop_path}, {"label-smoothing", c.label_smoothing}})
    check_range(name, value, value >= 0 && value < 1, "0 up to, not including, 1");
  for (const auto& [name, value] : {std::pair{"flip", c.flip}, {"random-erasing", c.random_erasing}})
    check_range(name, value, value >= 0 && value <= 1, "0 to 1");
  for (const auto& [name, value] : {std::pair{"mixup", c.mixup},
                                    {"cutmix", c.cutmix},
                                    {"colour-jitter", c.colour_jitter},
                                    {"clip-norm", c.clip_norm}})
    check_range(name, value, value >= 0, "0 or more");
}

}  // namespace pursuit::classify
