#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "apps/classify/commands.h"
#include "apps/classify/infer.h"
#include "apps/classify/pipeline.h"
#include "apps/run/run_folder.h"
#include "apps/run/run_lock.h"
#include "apps/terminal/print.h"
#include "apps/training/checkpoint.h"
#include "apps/training/checksums.h"
#include "apps/training/new_run.h"
#include "apps/training/provenance.h"
#include "engine/files/safetensors.h"

namespace pursuit::classify {

namespace {

namespace fs = std::filesystem;

// PyTorch's DistributedDataParallel and torch.compile put a prefix before every parameter's name.
std::string without_wrappers(std::string name) {
  for (bool again = true; again;) {
    again = false;
    for (const std::string prefix : {"module.", "_orig_mod."})
      if (name.starts_with(prefix)) name.erase(0, prefix.size()), again = true;
  }
  return name;
}

// The published code of Scaled Attention names the parameter `s` in both versions; it is S [heads, tokens,
// tokens] or alpha [1] here.
std::string own_name(const std::string& name, const Tensor& t) {
  const std::string official = ".attn.s";
  if (!name.ends_with(official)) return name;
  return name.substr(0, name.size() - 1) + (t.numel() == 1 ? "alpha" : "S");
}

TensorFile read_weights(const std::string& file) {
  TensorFile read = load_safetensors(file), clean;
  apps::verify_checksums(read, file);
  clean.metadata = read.metadata;
  for (const auto& [name, tensor] : read.tensors) {
    const std::string plain = own_name(without_wrappers(name), tensor);
    if (is_floating(tensor.dtype()) && !apps::all_finite(tensor.to(DType::f32)))
      fail("import", file + ": '" + name + "' holds values that are not finite");
    if (!clean.tensors.emplace(plain, is_floating(tensor.dtype()) ? tensor.to(DType::f32) : tensor).second)
      fail("import", file + ": '" + plain + "' is there twice, under two names");
  }
  return clean;
}

// Sets class names, mean and std if the file has none: from the data if it is given, else class numbers and
// ImageNet's statistics (0.5 for grey pictures).
void complete_unknown(Config& c, int64_t classes, const std::string& file) {
  if (c.classes.empty() && !c.data.empty()) {
    Config seen = c;
    complete(seen, *open_data(seen, data::Split::train));
    if (seen.channels != c.channels)
      fail("import", fmt::format("{}: the model takes {} channels, the pictures of {} have {}", file,
                                 c.channels, c.data, seen.channels));
    c.classes = seen.classes;
    c.mean = seen.mean;
    c.std = seen.std;
  } else if (c.classes.empty()) {
    for (int64_t i = 0; i < classes; ++i) c.classes.push_back(std::to_string(i));
    c.mean = c.channels == 3 ? std::vector<double>{0.485, 0.456, 0.406} : std::vector<double>{0.5};
    c.std = c.channels == 3 ? std::vector<double>{0.229, 0.224, 0.225} : std::vector<double>{0.5};
  }
  if (int64_t(c.classes.size()) != classes)
    fail("import",
         fmt::format("{}: the weights have {} classes, the data has {}", file, classes, c.classes.size()));
  if (int64_t(c.mean.size()) != c.channels || c.std.size() != c.mean.size())
    fail("import", file + ": the config in its metadata has no mean and std for every channel");
  if (c.crop == Crop::automatic) c.crop = c.image_size <= 64 ? Crop::padded : Crop::resized;
}

}  // namespace

int import_weights(const std::string& file, const std::string& out, Config config,
                   const std::vector<std::string>& given) {
  apps::check_not_in_training(out);
  if (apps::holds_run(out)) fail("import", out + ": there is a run already; choose another folder");
  const TensorFile weights = read_weights(file);
  if (const auto own = weights.metadata.find("config"); own != weights.metadata.end()) {
    const auto json = nlohmann::ordered_json::parse(own->second, nullptr, false);
    if (json.is_discarded()) fail("import", file + ": the config in its metadata is damaged");
    const Config wanted = config;
    config = apps::fields_from_json<Config>(json, file);
    const auto own_options = apps::options_to_json(config), wanted_options = apps::options_to_json(wanted);
    for (const std::string& option : given)
      if (option != "data" && own_options.at(option) != wanted_options.at(option))
        fail("import", fmt::format("--{} is {}, but {} was exported with {}; only --data may be another",
                                   option, apps::option_text(wanted_options.at(option)), file,
                                   apps::option_text(own_options.at(option))));
    if (!wanted.data.empty()) config.data = wanted.data;
    if (config.is_quantized())
      fail("import", file + " is quantised, and a run is trained; eval and predict take the file as it is");
  }
  const auto asked = apps::options_to_json(config);
  const int64_t classes =
      infer_model(config, weights, file, std::count(given.begin(), given.end(), "model") > 0);
  const auto found = apps::options_to_json(config);
  for (const std::string& option : given)
    if (asked.at(option) != found.at(option))
      fail("import",
           fmt::format("--{} is {}, but the weights in {} have {}; leave the option out", option,
                       apps::option_text(asked.at(option)), file, apps::option_text(found.at(option))));
  complete_unknown(config, classes, file);
  validate(config);

  Model model(model_config(config));
  apps::load_parameters(model, {weights.tensors.begin(), weights.tensors.end()}, file);
  nn::FlatParameters flat(model);
  nn::Optimizer optimizer(flat, optimizer_config(config));
  std::optional<nn::Ema> ema;  // starts from the imported weights
  if (config.ema > 0) ema.emplace(flat, config.ema);
  const apps::TrainingLock lock = apps::begin_new_run("import", out);
  apps::write_config(out, apps::fields_to_json(config), "classify", "cpu");
  apps::save_checkpoint(apps::checkpoint_path(out), "classify", apps::fields_to_json(config), {}, model,
                        optimizer, ema ? &*ema : nullptr);
  apps::print("{}: {}, {} x {} pictures, {} classes\n", out, describe_model(config), config.image_size,
              config.image_size, classes);
  return 0;
}

}  // namespace pursuit::classify
