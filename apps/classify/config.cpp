#include "apps/classify/config.h"

#include <algorithm>

#include "apps/command/apply.h"
#include "apps/command/checks.h"
#include "apps/command/unused_options.h"
#include "apps/run/fields.h"

namespace pursuit::classify {

using apps::check_range, apps::check_word;

namespace {

const char* title_of(const Config& c) {
  switch (c.model) {
    case Architecture::vit:
      return "Vision transformer";
    case Architecture::fan_tiny:
      return "FAN";
    case Architecture::resnet18:
      return "ResNet-18";
    case Architecture::resnet50:
      return "ResNet-50";
  }
  return "";
}

nn::FanConfig fan_config(const Config& c) {
  nn::FanConfig f{.image = c.image_size, .patch = c.patch, .channels = c.channels};
  f.dim = c.dim;
  f.depth = c.depth;
  f.heads = c.heads;
  f.classes = int64_t(c.classes.size());
  f.mlp_ratio = c.mlp_ratio;
  f.ln_eps = c.ln_eps;
  f.attention = apps::attention_config(c);
  f.dropout = c.dropout;
  f.drop_path = c.drop_path;
  return f;
}

nn::ResNetConfig resnet_config(const Config& c) {
  nn::ResNetConfig r{.channels = c.channels, .classes = int64_t(c.classes.size()), .width = c.width};
  r.bottleneck = c.model == Architecture::resnet50;
  if (r.bottleneck) r.blocks = {3, 4, 6, 3};
  r.small_stem = c.stem == Stem::automatic ? c.image_size <= 64 : c.stem == Stem::small;
  return r;
}

// Refuses options of other architectures.
void check_architecture(const Config& c) {
  std::vector<std::string> foreign = {"width", "stem"};
  if (!attends(c)) {
    foreign = {"attention", "layers",    "other-attention", "patch",   "dim",       "depth",
               "heads",     "mlp-ratio", "ln-eps",          "dropout", "drop-path", "inspect-every"};
    for (const nn::KindOption& option : nn::attention_options())
      if (!option.of_causal) foreign.push_back(option.name);
  }
  const nlohmann::ordered_json given = apps::options_to_json(c), usual = apps::options_to_json(Config());
  for (const std::string& option : foreign)
    if (given.at(option) != usual.at(option))
      fail(Config::app,
           fmt::format("--{} does not apply to --model {}; leave it out", option, choice_name(c.model)));
}

}  // namespace

ModelConfig model_config(const Config& c) {
  if (!attends(c)) return resnet_config(c);
  if (c.model == Architecture::fan_tiny) return fan_config(c);
  nn::VitConfig v = apps::vit_config(c);
  v.image = c.image_size;
  v.channels = c.channels;
  v.classes = int64_t(c.classes.size());
  v.quantization = apps::quantization_config(c);
  return v;
}

std::vector<apps::ModelSize> model_sizes(const Config& c) {
  const ModelConfig model = model_config(c);
  std::vector<apps::ModelSize> sizes;
  if (const auto* vit = std::get_if<nn::VitConfig>(&model)) {
    sizes = apps::vit_sizes(*vit);
    sizes.push_back({"classes", vit->classes, "head.weight", 0});
    return sizes;
  }
  if (const auto* fan = std::get_if<nn::FanConfig>(&model)) {
    int64_t halvings = 0;
    while (fan->patch >> (halvings + 1)) ++halvings;
    return {{"dim", fan->dim, "cls_token", 2},
            {"channels", fan->channels, "patch_embed.proj.0.0.weight", 1},
            {"patch", halvings, "patch_embed.proj.", apps::ModelSize::blocks},
            {"depth", fan->depth, "blocks.", apps::ModelSize::blocks},
            {"heads", fan->heads, "blocks.0.mlp.temperature", 0},
            {"mlp-ratio", fan->hidden(), "blocks.0.mlp.mlp_v.fc1.weight", 0},
            {"classes", fan->classes, "head.weight", 0}};
  }
  const auto& resnet = std::get<nn::ResNetConfig>(model);
  sizes = {{"width", resnet.width, "conv1.weight", 0},
           {"channels", resnet.channels, "conv1.weight", 1},
           {"stem", resnet.small_stem ? 3 : 7, "conv1.weight", 2},
           {"classes", resnet.classes, "fc.weight", 0}};
  for (size_t i = 0; i < resnet.blocks.size(); ++i)
    sizes.push_back({"model", resnet.blocks[i], fmt::format("layer{}.", i + 1), apps::ModelSize::blocks});
  return sizes;
}

std::string shown_class(const Config& c, const std::string& name) {
  if (c.class_names.size() != c.classes.size()) return name;
  const auto at = std::find(c.classes.begin(), c.classes.end(), name);
  return at == c.classes.end() ? name : c.class_names[size_t(at - c.classes.begin())];
}

std::string describe_attention(const Config& c) {
  if (!attends(c)) return std::string("none, ") + title_of(c);
  return apps::describe_attention(c, c.depth) +
         (c.model == Architecture::vit ? "" : fmt::format(", {}", title_of(c)));
}

std::string describe_model(const Config& c) {
  if (attends(c))
    return fmt::format("{}{} attention, width {}, {} blocks, {} heads, patch {}{}",
                       c.model == Architecture::fan_tiny ? "FAN with " : "", c.attention, c.dim, c.depth,
                       c.heads, c.patch,
                       c.is_quantized() ? fmt::format(", w{}a{}", c.weight_bits, c.activation_bits) : "");
  return fmt::format("{}, {} channels in the first stage, {} stem", title_of(c), c.width,
                     resnet_config(c).small_stem ? "small" : "large");
}

std::string model_title(const Config& c) {
  return attends(c) ? fmt::format("{} with {}", title_of(c), apps::describe_attention(c, c.depth))
                    : describe_model(c);
}

std::string run_word(const Config& c) {
  if (c.model == Architecture::vit) return c.attention;
  return choice_name(c.model) + (attends(c) ? "-" + c.attention : "");
}

int64_t class_blocks(const Config& c) {
  if (c.model == Architecture::fan_tiny) return nn::FanConfig().class_depth;
  return attends(c) ? c.depth : 0;
}

apps::ValidationScore validation_score(const Config& c) {
  if (c.validation == 0)
    fail(Config::app,
         "a setting is chosen on validation pictures, but training evaluates the test split; give "
         "--validation, for example 5000");
  return {"test_accuracy"};
}

void validate(const Config& c) {
  apps::check_fields(Config::app, c);
  apps::validate(Config::app, static_cast<const apps::VisionFields&>(c));
  apps::validate(Config::app, static_cast<const apps::TrainingFields&>(c));
  apps::validate(Config::app, static_cast<const apps::QuantizedFields&>(c), c.dtype);
  check_architecture(c);
  if (c.is_quantized() && c.model != Architecture::vit)
    fail(Config::app,
         fmt::format("'weight-bits' is {}, but {} has no quantised form", c.weight_bits, title_of(c)));
  if (c.scaled_decoding && c.jpeg_decoder != data::Decoder::turbo)
    fail(Config::app, "--scaled-decoding needs --jpeg-decoder turbo: stb decodes whole pictures");
  if (c.adversarial != Adversarial::none && (c.mixup > 0 || c.cutmix > 0))
    fail(Config::app, "--adversarial needs pictures of one class each; give --mixup 0 and --cutmix 0");
  if (c.model == Architecture::fan_tiny) {
    const bool fits = c.patch == 0 || c.patch == 4 || c.patch == 8 || c.patch == 16;
    check_range(Config::app, "patch", c.patch, fits, "4, 8 or 16 for --model fan-tiny");
    check_range(Config::app, "dim", c.dim, c.dim % 8 == 0, "a multiple of 8 for --model fan-tiny");
  }
  check_word(Config::app, "format", c.format, data::DatasetFormats::names());
  if (c.classes.empty()) return;  // the fields that depend on the data are not filled in yet
  if (c.channels != 1 && c.channels != 3)
    fail(Config::app, fmt::format("'channels' is {}, need 1 or 3", c.channels));
  check_range(Config::app, "image-size", c.image_size, c.image_size >= 1, "at least 1");
  if (attends(c))
    check_range(Config::app, "patch", c.patch, c.patch >= 1 && c.image_size % c.patch == 0,
                "a divisor of --image-size");
  apps::check_statistics(Config::app, c.mean, c.std, c.channels);
}

std::vector<std::pair<std::string, std::string>> without_effect(const Config& c) {
  apps::UnusedOptions unused;
  // What --crop auto and --format auto mean is known when the data is opened.
  unused.add_if(c.crop == Crop::none || c.crop == Crop::resized, "only --crop padded has it",
                {"crop-padding"});
  unused.add_if(c.crop == Crop::none || c.crop == Crop::padded,
                "only --crop resized decodes parts of pictures", {"scaled-decoding"});
  unused.add_if(c.rand_augment, "--rand-augment replaces it", {"colour-jitter"});
  unused.add_if(c.adversarial == Adversarial::none, "--adversarial is none",
                {"adversarial-budget", "adversarial-steps"});
  unused.add_if(c.adversarial == Adversarial::fgsm, "--adversarial fgsm has one step", {"adversarial-steps"});
  const bool decodes_none =
      c.data.empty() || c.format == "synthetic" || c.format == "cifar10" || c.format == "idx";
  unused.add_if(decodes_none, "the data set holds no picture files",
                {"jpeg-decoder", "cache-mib", "skip-bad"});
  return unused.list;
}

}  // namespace pursuit::classify

template void pursuit::apps::apply(const Recipe&, pursuit::classify::Config&);
