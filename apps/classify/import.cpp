#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "apps/classify/commands.h"
#include "apps/classify/pipeline.h"
#include "apps/run/run_folder.h"
#include "apps/run/run_lock.h"
#include "apps/terminal/print.h"
#include "apps/training/checkpoint.h"
#include "apps/training/checksums.h"
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

// Finds the attention kind by its own parameters and by the parts of its projection (2 or 3). If several
// kinds fit, takes the first and prints a note.
std::string infer_attention(const std::string& wanted, const TensorFile& weights, const std::string& file) {
  if (wanted != "softmax") return wanted;
  const auto qkv = weights.tensors.find("blocks.0.attn.qkv.weight");
  std::vector<std::string> fitting;
  for (const std::string& name : nn::attention_kinds()) {
    const nn::KindInfo& kind = nn::attention_kind(name);
    const std::vector<nn::NamedTensor> own = kind.make({1, 1, 1, false}, {})->parameters();
    const auto is_there = [&](const nn::NamedTensor& p) {
      return weights.tensors.contains("blocks.0.attn." + p.name);
    };
    const bool parts_fit = qkv == weights.tensors.end() || qkv->second.ndim() != 2 ||
                           qkv->second.size(0) == (kind.traits.shares_queries ? 2 : 3) * qkv->second.size(1);
    if (!own.empty() && parts_fit && std::all_of(own.begin(), own.end(), is_there)) fitting.push_back(name);
  }
  if (fitting.empty()) return wanted;
  if (fitting.size() > 1)
    apps::note("note: {} may be of any of {}; it is taken for {}, another is chosen by --attention\n", file,
               fmt::format("{}", fmt::join(fitting, ", ")), fitting[0]);
  return fitting[0];
}

std::string kinds_that_share_queries() {
  std::vector<std::string> names = nn::attention_kinds();
  std::erase_if(names, [](const std::string& n) { return !nn::attention_kind(n).traits.shares_queries; });
  return fmt::format("{}", fmt::join(names, ", "));
}

// The architecture that has the weights' names.
Architecture architecture_of(const TensorFile& weights) {
  if (!weights.tensors.contains("layer1.0.conv1.weight")) return Architecture::vit;
  return weights.tensors.contains("layer1.0.conv3.weight") ? Architecture::resnet50 : Architecture::resnet18;
}

// These two set the model's sizes in the config from the weights' shapes; they return the number of classes.
int64_t infer_resnet(Config& c, const TensorFile& weights, const std::string& file) {
  const auto shape_of = [&](const char* name, size_t dimensions) -> Shape {
    const auto it = weights.tensors.find(name);
    if (it == weights.tensors.end())
      fail("import",
           fmt::format("{}: not the weights of a ResNet with a classifier as timm names them; missing "
                       "is {}",
                       file, name));
    if (it->second.ndim() != int64_t(dimensions))
      fail("import",
           fmt::format("{}: '{}' is {}, need {} dimensions", file, name, it->second.str(), dimensions));
    return it->second.shape();
  };
  const Shape stem = shape_of("conv1.weight", 4), head = shape_of("fc.weight", 2);
  if (stem[0] < 1 || (stem[1] != 1 && stem[1] != 3) || (stem[2] != 3 && stem[2] != 7) || head[0] < 1)
    fail("import",
         fmt::format("{}: 'conv1.weight' is {}, need [width, 1 or 3 channels, 7, 7], or 3, 3 for small "
                     "pictures; 'fc.weight' is {}, need [classes, features]",
                     file, stem.str(), head.str()));
  c.width = stem[0];
  c.channels = stem[1];
  c.stem = stem[2] == 3 ? Stem::small : Stem::large;
  if (c.image_size == 0) c.image_size = c.stem == Stem::small ? 32 : 224;
  c.heads = Config().heads;  // which is no option of a ResNet
  const auto blocks = std::get<nn::ResNetConfig>(model_config(c)).blocks;
  for (size_t i = 0; i < blocks.size(); ++i)
    for (const auto& [block, needed] : {std::pair{blocks[i] - 1, true}, {blocks[i], false}})
      if (weights.tensors.contains(fmt::format("layer{}.{}.conv1.weight", i + 1, block)) != needed)
        fail("import",
             fmt::format("{}: layer{} has not the {} blocks of {}; resnet18 and resnet50 can be imported",
                         file, i + 1, blocks[i], choice_name(c.model)));
  return head[0];
}

int64_t infer_transformer(Config& c, const TensorFile& weights, const std::string& file) {
  if (weights.tensors.contains("head_dist.weight"))
    fail("import",
         file +
             ": distilled vision transformers (with 'head_dist.weight') are not supported; give the weights "
             "of one without distillation");
  std::string missing;
  const auto shape_of = [&](const char* name) -> Shape {
    const auto it = weights.tensors.find(name);
    if (it != weights.tensors.end()) return it->second.shape();
    missing += (missing.empty() ? "" : ", ") + std::string(name);
    return {};
  };
  const Shape patch = shape_of("patch_embed.proj.weight"), positions = shape_of("pos_embed"),
              qkv = shape_of("blocks.0.attn.qkv.weight"), hidden = shape_of("blocks.0.mlp.fc1.weight"),
              head = shape_of("head.weight");
  if (!missing.empty())
    fail("import",
         file + ": not the weights of a vision transformer as timm names them; missing are " + missing);
  const auto need = [&](bool ok, const char* name, const Shape& got, const std::string& what) {
    if (!ok) fail("import", file + ": '" + name + "' is " + got.str() + ", need " + what);
  };

  need(patch.size() == 4 && patch[0] > 0 && (patch[1] == 1 || patch[1] == 3) && patch[2] > 0 &&
           patch[2] == patch[3],
       "patch_embed.proj.weight", patch, "[dim, 1 or 3 channels, patch, patch]");
  c.dim = patch[0];
  c.channels = patch[1];
  c.patch = patch[2];
  const std::string dim = std::to_string(c.dim);
  need(positions.size() == 3 && positions[0] == 1 && positions[2] == c.dim, "pos_embed", positions,
       "[1, tokens, " + dim + "]");
  const int64_t grid = std::llround(std::sqrt(double(positions[1] - 1)));
  need(grid > 0 && grid * grid + 1 == positions[1], "pos_embed", positions,
       "one class token and a square of patches");
  c.image_size = grid * c.patch;
  need(hidden.size() == 2 && hidden[0] > 0 && hidden[1] == c.dim, "blocks.0.mlp.fc1.weight", hidden,
       "[hidden, " + dim + "]");
  c.mlp_ratio = double(hidden[0]) / double(c.dim);
  // The model takes floor(dim * ratio), which rounding may make one less than the hidden width.
  if (int64_t(double(c.dim) * c.mlp_ratio) != hidden[0])
    c.mlp_ratio = (double(hidden[0]) + 0.5) / double(c.dim);
  need(head.size() == 2 && head[0] > 0 && head[1] == c.dim, "head.weight", head, "[classes, " + dim + "]");

  const bool shares = nn::attention_kind(c.attention).traits.shares_queries;
  need(qkv.size() == 2 && qkv[0] == (shares ? 2 : 3) * c.dim && qkv[1] == c.dim, "blocks.0.attn.qkv.weight",
       qkv,
       fmt::format("[{}, {}] for --attention {}; {} rows per unit of width are {}", (shares ? 2 : 3) * c.dim,
                   dim, c.attention, shares ? 3 : 2,
                   shares ? "the kinds with queries (softmax)"
                          : "keys and values alone (" + kinds_that_share_queries() + ")"));
  if (c.heads <= 0) c.heads = std::max<int64_t>(1, c.dim / 64);

  c.depth = 0;
  for (const auto& [name, tensor] : weights.tensors)
    if (name.starts_with("blocks."))
      c.depth = std::max(c.depth, 1 + std::min(std::strtol(name.c_str() + 7, nullptr, 10), 1L << 32));
  if (c.depth > int64_t(weights.tensors.size()))
    fail("import", file + ": block " + std::to_string(c.depth - 1) + " is there, but not all before it");
  return head[0];
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
  }
  const Architecture found = architecture_of(weights);
  if (found != config.model && std::count(given.begin(), given.end(), "model"))
    fail("import", fmt::format("{}: the weights are those of --model {}, not {}", file, choice_name(found),
                               choice_name(config.model)));
  config.model = found;
  config.attention = infer_attention(config.attention, weights, file);
  const int64_t classes =
      attends(config) ? infer_transformer(config, weights, file) : infer_resnet(config, weights, file);
  complete_unknown(config, classes, file);
  validate(config);

  Model model(model_config(config));
  apps::load_parameters(model, {weights.tensors.begin(), weights.tensors.end()}, file);
  nn::FlatParameters flat(model);
  nn::Optimizer optimizer(flat, optimizer_config(config));
  std::optional<nn::Ema> ema;  // starts from the imported weights
  if (config.ema > 0) ema.emplace(flat, config.ema);
  fs::create_directories(out);
  apps::remove_old_run(out);
  apps::write_config(out, apps::fields_to_json(config), "classify", "cpu");
  apps::save_checkpoint(apps::checkpoint_path(out), "classify", apps::fields_to_json(config), {}, model,
                        optimizer, ema ? &*ema : nullptr);
  apps::print("{}: {}, {} x {} pictures, {} classes\n", out, describe_model(config), config.image_size,
              config.image_size, classes);
  return 0;
}

}  // namespace pursuit::classify
