#include "apps/training/checkpoint.h"

#include <filesystem>
#include <map>

#include "apps/common/run_folder.h"
#include "engine/error.h"
#include "engine/streams.h"

namespace pursuit::apps {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* ema_name = "ema.values";

const std::string& metadata(const TensorFile& file, const char* key, const std::string& path) {
  const auto it = file.metadata.find(key);
  if (it == file.metadata.end())
    fail("checkpoint", path + " has no '" + key + "' in its metadata: it is no checkpoint of a run");
  return it->second;
}

Json parse(const std::string& text, const std::string& path) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) fail("checkpoint", path + ": its metadata is damaged");
  return json;
}

Json to_json(const RunState& s) {
  return {{"step", s.step},         {"epoch", s.epoch},
          {"batch", s.batch},       {"best_score", s.best_score},
          {"loss_sum", s.loss_sum}, {"loss_count", s.loss_count}};
}

RunState state_of(const TensorFile& file, const std::string& path) {
  const Json j = parse(metadata(file, "progress", path), path);
  RunState s;
  try {
    s = {j.at("step"),       j.at("epoch"),    j.at("batch"),
         j.at("best_score"), j.at("loss_sum"), j.at("loss_count")};
  } catch (const Json::exception& e) {
    fail("checkpoint", path + ": progress is damaged: " + e.what());
  }
  if (s.step < 0 || s.epoch < 0 || s.batch < 0 || s.loss_count < 0)
    fail("checkpoint", path + ": progress is damaged: a count is negative");
  return s;
}

// Names for a message, the first few of many.
class NameList {
 public:
  void add(const std::string& name) {
    if (count_++ < shown) names_ += " " + name;
  }
  // "; what: name name and 7 more", or nothing.
  std::string text(const char* what) const {
    if (count_ == 0) return "";
    return std::string("; ") + what + ":" + names_ +
           (count_ > shown ? " and " + std::to_string(count_ - shown) + " more" : "");
  }

 private:
  static constexpr int64_t shown = 10;
  std::string names_;
  int64_t count_ = 0;
};

std::map<std::string, Tensor> tensors_of(const nn::Module& model) {
  std::map<std::string, Tensor> tensors;
  for (const nn::NamedTensor& p : model.parameters()) tensors[p.name] = p.tensor->detach();
  return tensors;
}

void restore(const Checkpoint& c, const std::string& name, Tensor& into) {
  const auto it = c.file.tensors.find(name);
  if (it == c.file.tensors.end()) fail("checkpoint", c.path + " lacks " + name);
  if (it->second.shape() != into.shape())
    fail("checkpoint", c.path + ": " + name + " is " + it->second.str() + ", need " + into.str());
  copy_values(into, it->second.to(into.dtype()));
}

}  // namespace

std::string checkpoint_path(const std::string& folder) {
  return (fs::path(folder) / "checkpoint.safetensors").string();
}

std::string best_path(const std::string& folder) { return (fs::path(folder) / "best.safetensors").string(); }

Checkpoint open_checkpoint(const std::string& app, const std::string& run_or_file) {
  Checkpoint c;
  const bool folder = fs::is_directory(run_or_file);
  c.path = folder ? checkpoint_path(run_or_file) : run_or_file;
  if (!fs::exists(c.path))
    fail("checkpoint", folder
                           ? run_or_file + " holds no checkpoint.safetensors: it is not the folder of a run"
                           : "there is no file " + c.path);
  c.file = load_safetensors(c.path);
  if (app == "classify" && !c.file.metadata.contains("config"))
    fail("checkpoint",
         c.path + " is no checkpoint of a run; `classify import` makes a run of timm's weights");
  c.config = parse(metadata(c.file, "config", c.path), c.path);
  const auto by = c.file.metadata.find("app");
  if (by != c.file.metadata.end() && by->second != app)
    fail("checkpoint", c.path + " was written by `" + by->second + "`, need one of `" + app + "`");
  if (c.file.metadata.contains("progress")) c.state = state_of(c.file, c.path);
  c.name = folder ? last_name(run_or_file) : fs::path(run_or_file).stem().string();
  return c;
}

bool has_average(const Checkpoint& c) { return c.file.tensors.contains(ema_name); }

std::vector<std::pair<std::string, Tensor>> Checkpoint::parameters() const {
  std::vector<std::pair<std::string, Tensor>> own;
  for (const auto& [name, t] : file.tensors)
    if (!name.starts_with("optimizer.") && name != ema_name) own.push_back({name, t});
  return own;
}

void check_parameters(const nn::Module& model, const std::vector<std::pair<std::string, Tensor>>& tensors,
                      const std::string& file) {
  std::map<std::string, Tensor> given(tensors.begin(), tensors.end());
  NameList missing, mismatched, unexpected;
  for (const nn::NamedTensor& p : model.parameters()) {
    const auto it = given.find(p.name);
    if (it == given.end()) {
      missing.add(p.name);
      continue;
    }
    if (it->second.shape() != p.tensor->shape())
      mismatched.add(p.name + " " + it->second.shape().str() + " (need " + p.tensor->shape().str() + ")");
    given.erase(it);
  }
  for (const auto& [name, t] : given) unexpected.add(name);
  const std::string text =
      missing.text("missing") + mismatched.text("of another shape") + unexpected.text("unexpected");
  if (!text.empty()) fail("checkpoint", file + " does not fit the model" + text);
}

void load_parameters(nn::Module& model, const std::vector<std::pair<std::string, Tensor>>& tensors,
                     const std::string& file) {
  check_parameters(model, tensors, file);
  std::map<std::string, Tensor> given(tensors.begin(), tensors.end());
  for (const nn::NamedTensor& p : model.parameters())
    copy_values(*p.tensor, given[p.name].to(p.tensor->dtype()));
}

void load_parameters(nn::Module& model, const Checkpoint& c, bool ema) {
  load_parameters(model, c.parameters(), c.path);
  if (!ema) return;
  const auto it = c.file.tensors.find(ema_name);
  if (it == c.file.tensors.end()) fail("checkpoint", c.path + " holds no averaged weights; train with --ema");
  const std::vector<nn::NamedTensor> parameters = model.parameters();
  const std::vector<int64_t> offsets = nn::flat_offsets(parameters);
  if (it->second.numel() != offsets.back())
    fail("checkpoint", c.path + ": the averaged weights do not fit the model");
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& t = *parameters[i].tensor;
    copy_values(t, it->second.slice(0, offsets[i], offsets[i] + t.numel()).reshape(t.shape()));
  }
}

void save_checkpoint(const std::string& path, const std::string& app, const Json& config,
                     const RunState& state, nn::Module& model, nn::Optimizer& optimizer, const nn::Ema* ema) {
  std::map<std::string, Tensor> tensors = tensors_of(model);
  for (const nn::NamedTensor& s : optimizer.state()) tensors[s.name] = *s.tensor;
  if (ema) tensors[ema_name] = ema->values;
  save_safetensors(path, tensors,
                   {{"format", "pt"},
                    {"app", app},
                    {"config", config.dump()},
                    {"progress", to_json(state).dump()},
                    {"streams", std::to_string(streams::version)},
                    {"optimizer_steps", std::to_string(optimizer.steps())}});
}

void save_weights(const std::string& path, const std::string& app, const Json& config,
                  const nn::Module& model) {
  save_safetensors(path, tensors_of(model), {{"format", "pt"}, {"app", app}, {"config", config.dump()}});
}

RunState resume(const Checkpoint& c, nn::Module& model, nn::Optimizer& optimizer, nn::Ema* ema) {
  const auto map = c.file.metadata.find("streams");
  const std::string drawn = map == c.file.metadata.end() ? "1" : map->second;
  if (drawn != std::to_string(streams::version))
    fail("checkpoint",
         c.path + " was trained with random streams of version " + drawn + ", and resumed by this program " +
             "(version " + std::to_string(streams::version) + ") it would draw other noise; train anew, or " +
             "resume it with the program that began it. Everything else than training takes it as it is");
  load_parameters(model, c);
  for (const nn::NamedTensor& s : optimizer.state()) restore(c, s.name, *s.tensor);
  if (ema) restore(c, ema_name, ema->values);
  if (metadata(c.file, "optimizer_steps", c.path) != std::to_string(c.state.step))
    fail("checkpoint", c.path + ": optimizer and progress disagree on the step");
  optimizer.set_steps(c.state.step);
  return c.state;
}

}  // namespace pursuit::apps
