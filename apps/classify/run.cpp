#include "apps/classify/run.h"

#include <filesystem>
#include <set>

#include "apps/common/files.h"
#include "engine/error.h"
#include "engine/files/safetensors.h"

namespace pursuit::classify {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

Json parse(const std::string& text, const std::string& file) {
  try {
    return Json::parse(text);
  } catch (const Json::exception&) {
    fail("checkpoint", file + ": its metadata is damaged");
  }
}

const std::string& metadata(const TensorFile& file, const char* key, const std::string& path) {
  const auto it = file.metadata.find(key);
  if (it == file.metadata.end())
    fail("checkpoint", path + " has no '" + key +
                           "' in its metadata: it is no Pursuit checkpoint; bring PyTorch weights in with "
                           "`classify import`");
  return it->second;
}

Json to_json(const Progress& p) {
  return {{"step", p.step},         {"epoch", p.epoch},
          {"batch", p.batch},       {"best_accuracy", p.best_accuracy},
          {"loss_sum", p.loss_sum}, {"loss_count", p.loss_count}};
}

Progress progress_from(const TensorFile& file, const std::string& path) {
  const Json j = parse(metadata(file, "progress", path), path);
  try {
    return {j.at("step"),          j.at("epoch"),    j.at("batch"),
            j.at("best_accuracy"), j.at("loss_sum"), j.at("loss_count")};
  } catch (const Json::exception& e) {
    fail("checkpoint", path + ": progress is damaged: " + e.what());
  }
}

constexpr const char* ema_name = "ema.values";

// The model's own tensors of a checkpoint; what belongs to the optimizer and the average has a prefix.
std::vector<std::pair<std::string, Tensor>> parameters_of(const TensorFile& file) {
  std::vector<std::pair<std::string, Tensor>> out;
  for (const auto& [name, t] : file.tensors)
    if (!name.starts_with("optimizer.") && name != ema_name) out.push_back({name, t});
  return out;
}

void restore(const TensorFile& file, const std::string& path, const std::string& name, Tensor& into) {
  const auto it = file.tensors.find(name);
  if (it == file.tensors.end()) fail("checkpoint", path + " lacks " + name);
  if (it->second.shape() != into.shape())
    fail("checkpoint", path + ": " + name + " is " + it->second.str() + ", need " + into.str());
  copy_values(into, it->second.to(into.dtype()));
}

}  // namespace

std::string checkpoint_path(const std::string& folder) {
  return (fs::path(folder) / "checkpoint.safetensors").string();
}

void load_parameters(nn::VisionTransformer& model, const std::vector<std::pair<std::string, Tensor>>& tensors,
                     const std::string& file) {
  std::map<std::string, Tensor> given(tensors.begin(), tensors.end());
  std::string missing, mismatched, unexpected;
  for (const nn::NamedTensor& p : model.parameters()) {
    const auto it = given.find(p.name);
    if (it == given.end()) {
      missing += " " + p.name;
    } else if (it->second.shape() != p.tensor->shape()) {
      mismatched += " " + p.name + " " + it->second.shape().str() + " (need " + p.tensor->shape().str() + ")";
    }
  }
  for (const nn::NamedTensor& p : model.parameters()) given.erase(p.name);
  for (const auto& [name, t] : given) unexpected += " " + name;
  std::string text;
  if (!missing.empty()) text += "; missing:" + missing;
  if (!mismatched.empty()) text += "; of another shape:" + mismatched;
  if (!unexpected.empty()) text += "; unexpected:" + unexpected;
  if (!text.empty()) fail("checkpoint", file + " does not fit the model" + text);
  given = {tensors.begin(), tensors.end()};
  for (const nn::NamedTensor& p : model.parameters())
    copy_values(*p.tensor, given[p.name].to(p.tensor->dtype()));
}

LoadedModel load_model(const std::string& run_or_file, bool use_ema) {
  const bool folder = fs::is_directory(run_or_file);
  const std::string path = folder ? checkpoint_path(run_or_file) : run_or_file;
  if (!fs::exists(path))
    fail("checkpoint", folder
                           ? run_or_file + " holds no checkpoint.safetensors: it is not the folder of a run"
                           : "there is no file " + path);
  const TensorFile file = load_safetensors(path);
  LoadedModel loaded;
  loaded.config = config_from_json(parse(metadata(file, "config", path), path), path);
  if (file.metadata.contains("progress")) loaded.progress = progress_from(file, path);
  validate(loaded.config);
  loaded.model = std::make_unique<nn::VisionTransformer>(vit_config(loaded.config));
  load_parameters(*loaded.model, parameters_of(file), path);
  if (use_ema) {
    const auto it = file.tensors.find(ema_name);
    if (it == file.tensors.end()) fail("checkpoint", path + " holds no averaged weights; train with --ema");
    const std::vector<nn::NamedTensor> parameters = loaded.model->parameters();
    const std::vector<int64_t> offsets = nn::flat_offsets(parameters);
    if (it->second.numel() != offsets.back())
      fail("checkpoint", path + ": the averaged weights do not fit the model");
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Tensor& t = *parameters[i].tensor;
      copy_values(t, it->second.slice(0, offsets[i], offsets[i] + t.numel()).reshape(t.shape()));
    }
  }
  fs::path name = fs::path(run_or_file).lexically_normal();
  if (!name.has_filename()) name = name.parent_path();
  loaded.name = folder ? name.filename().string() : name.stem().string();
  return loaded;
}

void save_checkpoint(const std::string& folder, const Config& config, const Progress& progress,
                     nn::VisionTransformer& model, nn::Optimizer& optimizer, const nn::Ema* ema) {
  std::map<std::string, Tensor> tensors;
  for (const nn::NamedTensor& p : model.parameters()) tensors[p.name] = p.tensor->detach();
  for (const nn::NamedTensor& s : optimizer.state()) tensors[s.name] = *s.tensor;
  if (ema) tensors[ema_name] = ema->values;
  save_safetensors(checkpoint_path(folder), tensors,
                   {{"format", "pt"},
                    {"config", classify::to_json(config).dump()},
                    {"progress", to_json(progress).dump()},
                    {"optimizer_steps", std::to_string(optimizer.steps())}});
}

Progress load_checkpoint(const std::string& folder, nn::VisionTransformer& model, nn::Optimizer& optimizer,
                         nn::Ema* ema) {
  const std::string path = checkpoint_path(folder);
  const TensorFile file = load_safetensors(path);
  load_parameters(model, parameters_of(file), path);
  for (const nn::NamedTensor& s : optimizer.state()) restore(file, path, s.name, *s.tensor);
  if (ema) restore(file, path, ema_name, ema->values);
  const std::string& steps = metadata(file, "optimizer_steps", path);
  const Progress progress = progress_from(file, path);
  if (steps != std::to_string(progress.step))
    fail("checkpoint", path + ": optimizer and progress disagree on the step");
  optimizer.set_steps(progress.step);
  return progress;
}

}  // namespace pursuit::classify
