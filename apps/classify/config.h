#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <utility>
#include <vector>

#include "apps/classify/model.h"
#include "apps/pictures/vision_fields.h"
#include "apps/run/json.h"
#include "apps/training/model_sizes.h"
#include "data/dataset.h"

namespace pursuit::classify {

enum class Architecture { vit, fan_tiny, resnet18, resnet50 };
inline std::vector<Choice<Architecture>> choices_of(Architecture) {
  return {{"vit", Architecture::vit, "vision transformer"},
          {"fan-tiny", Architecture::fan_tiny,
           "FAN, which mixes channels too; 4 heads unless --heads is given, drop path alike in all blocks"},
          {"resnet18", Architecture::resnet18, "without attention"},
          {"resnet50", Architecture::resnet50, "likewise"}};
}

// The first layers of a ResNet.
enum class Stem { automatic, small, large };
inline std::vector<Choice<Stem>> choices_of(Stem) {
  return {{"auto", Stem::automatic, "small up to 64 pixels"},
          {"small", Stem::small, "3 x 3 convolution with stride 1"},
          {"large", Stem::large, "7 x 7 with stride 2, max pooling"}};
}

enum class Crop { automatic, none, padded, resized };
inline std::vector<Choice<Crop>> choices_of(Crop) {
  return {{"auto", Crop::automatic},
          {"none", Crop::none},
          {"padded", Crop::padded, "small pictures"},
          {"resized", Crop::resized, "random resized crop"}};
}

// The attack whose pictures a model is trained on.
enum class Adversarial { none, fgsm, pgd };
inline std::vector<Choice<Adversarial>> choices_of(Adversarial) {
  return {{"none", Adversarial::none}, {"fgsm", Adversarial::fgsm}, {"pgd", Adversarial::pgd}};
}

// The options of `classify train`. Recipes hold them too, and config.json in a run's folder, from which
// resume, eval and predict rebuild the model and the data pipeline.
struct Config : apps::VisionFields, apps::TrainingFields, apps::QuantizedFields {
  static constexpr const char *app = "classify", *unit = "images";
  using Model = classify::Model;

  Architecture model = Architecture::vit;
  int64_t width = 64;  // of a ResNet's first stage
  Stem stem = Stem::automatic;

  int64_t image_size = 0;  // 0: the data's own size for small pictures, else 224
  std::vector<std::string> train_files, test_files;
  int64_t validation = 0;  // pictures held out of the training split; 0: training evaluates the test split

  // augmentation
  Crop crop = Crop::automatic;
  int crop_padding = 0;  // pixels, for Crop::padded; 0: an eighth of the image size
  bool rand_augment = false;
  double colour_jitter = 0, random_erasing = 0, mixup = 0, cutmix = 0, label_smoothing = 0.1;
  int64_t repeats = 1;
  bool scaled_decoding = false;
  Adversarial adversarial = Adversarial::none;
  double adversarial_budget = 8;
  int64_t adversarial_steps = 10;

  // filled in when the data is opened
  int64_t channels = 0;
  std::string test_split = "test";       // the evaluated split's name in the data set, or "validation"
  std::vector<std::string> class_names;  // readable names, if the data set lists them
  std::vector<std::string> classes;
  std::vector<double> mean, std;

  Config() { drop_path = 0.1; }
};

template <class C, class F> void for_each_field(C& c, const F& f) {
  f("model", c.model, "Model; a ResNet takes no options of attention and transformer");
  f("width", c.width, "ResNet: channels of the first stage", apps::Range{1, 4096});
  f("stem", c.stem, "ResNet: first layers");
  for_each_vision_field(c, f);
  f("image-size", c.image_size,
    "Side of the model's input in pixels (0: the pictures' own up to 64, else 224)", apps::Range{0, 4096});
  f("patch", c.patch,
    "Side of a patch in pixels (0: 4 for pictures up to 64 pixels, else 16; fan-tiny: 4, 8 or 16)",
    apps::Range{0, 4096});
  f("data", c.data, "Folder with the data set (left out: built-in drawn shapes)");
  static const std::string formats = data::DatasetFormats::help(data::DatasetFormats::Use::training);
  f("format", c.format, formats.c_str());
  f("train-files", c.train_files, "cifar10: batch files to train on");
  f("test-files", c.test_files, "cifar10: batch files to test on");
  f("validation", c.validation,
    "Hold this many training pictures out, evenly spaced, and evaluate training on them instead of the test "
    "split",
    apps::any_count);
  f("crop", c.crop, "Training crop");
  f("crop-padding", c.crop_padding, "Pixels of padding for --crop padded (0: an eighth of the side)",
    apps::Range{0, 4096});
  f("rand-augment", c.rand_augment, "RandAugment m9-mstd0.5-inc1");
  f("colour-jitter", c.colour_jitter,
    "Strength of colour jitter (0: none; off under RandAugment, as in timm)", apps::Range{0, 1e6});
  f("random-erasing", c.random_erasing, "Probability of random erasing", apps::Range{0, 1});
  f("mixup", c.mixup, "Mixup alpha (0: off)", apps::Range{0, 1e6});
  f("cutmix", c.cutmix, "CutMix alpha (0: off)", apps::Range{0, 1e6});
  f("label-smoothing", c.label_smoothing, "Label smoothing", apps::below(0, 1));
  f("repeats", c.repeats, "Repeated augmentation: variants of a picture per epoch", apps::Range{1, 1000});
  f("scaled-decoding", c.scaled_decoding,
    "With --jpeg-decoder turbo: decode crops at 1/2, 1/4 or 1/8 where that leaves the model's pixels");
  f("adversarial", c.adversarial,
    "Train on pictures changed by this attack on the model of every step (Madry et al. 2018)");
  f("adversarial-budget", c.adversarial_budget, "--adversarial: largest change of a pixel, in 1/255",
    apps::above(0, 255));
  f("adversarial-steps", c.adversarial_steps, "--adversarial pgd: steps, each of 2.5 / steps of the budget",
    apps::Range{1, 1000});
  for_each_training_field(c, f);
  f("channels", c.channels, "", apps::Range{0, 3});
  f("test-split", c.test_split, "");
  f("class-names", c.class_names, "");
  f("classes", c.classes, "");
  f("mean", c.mean, "", apps::Range{-1e6, 1e6});
  f("std", c.std, "", apps::above(0, 1e6));
  for_each_quantized_field(c, f);
}

inline bool attends(const Config& config) {
  return config.model == Architecture::vit || config.model == Architecture::fan_tiny;
}
// The number of blocks whose class token attends to the patches.
int64_t class_blocks(const Config& config);
ModelConfig model_config(const Config& config);
std::vector<apps::ModelSize> model_sizes(const Config& config);
// For example "softmax attention, width 192, 12 blocks, 3 heads, patch 16".
std::string describe_model(const Config& config);
// For example "FAN with RPC-Attention (4 iterations, block 0)"; without attention what describe_model says.
std::string model_title(const Config& config);
// What a run's default name has after the app's: the attention kind, the model if it is another than a vision
// transformer, or both.
std::string run_word(const Config& config);
// The class's readable name if there is one, else its name in the data set; for reports and tables.
std::string shown_class(const Config& config, const std::string& name);
// For example "RPC-Attention (4 iterations, block 0)", with the model's title if it is no vision transformer.
std::string describe_attention(const Config& config);
// Checks options against each other. Throws Error that names the option.
void validate(const Config& config);
// The options that change nothing beside these, and why; see note_options.
std::vector<std::pair<std::string, std::string>> without_effect(const Config& config);
// Throws Error if training evaluates test pictures.
apps::ValidationScore validation_score(const Config& config);

}  // namespace pursuit::classify
