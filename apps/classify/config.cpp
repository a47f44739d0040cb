#include "apps/classify/config.h"

#include <algorithm>

#include "apps/command/checks.h"
#include "apps/run/fields.h"

namespace pursuit::classify {

using apps::check_range, apps::check_word;

nn::VitConfig model_config(const Config& c) {
  nn::VitConfig v = apps::vit_config(c);
  v.image = c.image_size;
  v.channels = c.channels;
  v.classes = int64_t(c.classes.size());
  return v;
}

std::vector<apps::ModelSize> model_sizes(const Config& c) {
  std::vector<apps::ModelSize> sizes = apps::vit_sizes(model_config(c));
  sizes.push_back({"classes", int64_t(c.classes.size()), "head.weight", 0});
  return sizes;
}

std::string shown_class(const Config& c, const std::string& name) {
  if (c.class_names.size() != c.classes.size()) return name;
  const auto at = std::find(c.classes.begin(), c.classes.end(), name);
  return at == c.classes.end() ? name : c.class_names[size_t(at - c.classes.begin())];
}

std::string describe_attention(const Config& c) { return apps::describe_attention(c, c.depth); }

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
  if (c.scaled_decoding && c.jpeg_decoder != data::Decoder::turbo)
    fail(Config::app, "--scaled-decoding needs --jpeg-decoder turbo: stb decodes whole pictures");
  if (c.adversarial != Adversarial::none && (c.mixup > 0 || c.cutmix > 0))
    fail(Config::app, "--adversarial needs pictures of one class each; give --mixup 0 and --cutmix 0");
  check_word(Config::app, "format", c.format, data::DatasetFormats::names());
  if (c.classes.empty()) return;  // the fields that depend on the data are not filled in yet
  if (c.channels != 1 && c.channels != 3)
    fail(Config::app, fmt::format("'channels' is {}, need 1 or 3", c.channels));
  check_range(Config::app, "patch", c.patch, c.patch >= 1 && c.image_size >= 1 && c.image_size % c.patch == 0,
              "a divisor of --image-size");
  apps::check_statistics(Config::app, c.mean, c.std, c.channels);
}

}  // namespace pursuit::classify
