#include "apps/training/checkpoint.h"

#include <fmt/format.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>

#include "apps/run/fields.h"
#include "apps/run/run_folder.h"
#include "apps/terminal/print.h"
#include "apps/training/checksums.h"
#include "engine/base/error.h"
#include "engine/base/streams.h"
#include "engine/cpu/parallel.h"

namespace pursuit::apps {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

using Named = std::vector<std::pair<std::string, Tensor>>;

constexpr std::string_view ema_prefix = "ema.", optimizer_prefix = "optimizer.";
constexpr const char* flat_average = "ema.values";  // in older runs: all averages in one buffer

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

RunState state_of(const TensorFile& file, const std::string& path) {
  const Json json = parse(metadata(file, "progress", path), path);
  RunState s = fields_from_json<RunState>(json, path + ": progress");
  if (s.step < 0 || s.epoch < 0 || s.batch < 0 || s.loss_count < 0)
    fail("checkpoint", path + ": progress is damaged: a count is out of range");
  return s;
}

// Collects names for a message, which shows the first ten.
class NameList {
 public:
  void add(const std::string& name) {
    if (count_++ < shown) names_ += " " + name;
  }
  // "; what: name name and 7 more"; empty without names.
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

Tensor on_cpu(const Tensor& t) { return t.detach().to(cpu).contiguous(); }

std::map<std::string, Tensor> tensors_of(const nn::Module& model) {
  std::map<std::string, Tensor> tensors;
  for (const nn::NamedTensor& t : model.state()) tensors[t.name] = on_cpu(*t.tensor);
  return tensors;
}

void restore(const Checkpoint& c, const std::string& name, const Tensor& into) {
  const auto it = c.file.tensors.find(name);
  if (it == c.file.tensors.end()) fail("checkpoint", c.path + " lacks " + name);
  if (it->second.shape() != into.shape())
    fail("checkpoint", c.path + ": " + name + " is " + it->second.str() + ", need " + into.str());
  copy_values(into, it->second.to(into.dtype()));
}

// The averaged weights under the names of the model's tensors, also of an earlier version's file.
Named averages(const Checkpoint& c, const nn::Module& model) {
  const auto flat = c.file.tensors.find(flat_average);
  if (flat == c.file.tensors.end()) return c.averages();
  Named all;
  const std::vector<nn::NamedTensor> parameters = model.parameters();
  const std::vector<int64_t> offsets = nn::flat_offsets(parameters);
  if (flat->second.shape() != Shape{offsets.back()})
    fail("checkpoint", c.path + ": the averaged weights do not fit the model");
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Tensor& t = *parameters[i].tensor;
    all.emplace_back(parameters[i].name,
                     flat->second.slice(0, offsets[i], offsets[i] + t.numel()).reshape(t.shape()));
  }
  return all;
}

Checkpoint read_checkpoint(const std::string& app, const std::string& path, const std::string& name,
                           bool verify) {
  Checkpoint c;
  c.path = path;
  c.name = name;
  c.file = load_safetensors(path);
  if (app == "classify" && !c.file.metadata.contains("config"))
    fail("checkpoint", path + " is no checkpoint of a run; `classify import` makes a run of timm's weights");
  if (verify && !verify_checksums(c.file, path) && c.file.metadata.contains("progress"))
    note("{}: written without checksums by an earlier version; damage would go unnoticed\n", path);
  c.config = parse(metadata(c.file, "config", path), path);
  const auto by = c.file.metadata.find("app");
  if (by != c.file.metadata.end() && by->second != app)
    fail("checkpoint", path + " was written by `" + by->second + "`, need one of `" + app + "`");
  if (c.file.metadata.contains("progress")) c.state = state_of(c.file, path);
  return c;
}

}  // namespace

std::string checkpoint_path(const std::string& folder) {
  return (fs::path(folder) / "checkpoint.safetensors").string();
}

std::string previous_path(const std::string& folder) {
  return (fs::path(folder) / "checkpoint-previous.safetensors").string();
}

std::string best_path(const std::string& folder) { return (fs::path(folder) / "best.safetensors").string(); }

bool holds_run(const std::string& folder) {
  return fs::exists(checkpoint_path(folder)) || fs::exists(previous_path(folder)) ||
         fs::exists(best_path(folder));
}

Checkpoint open_checkpoint(const std::string& app, const std::string& run_or_file, bool verify) {
  if (!fs::is_directory(run_or_file)) {
    if (!fs::exists(run_or_file)) fail("checkpoint", "there is no file " + run_or_file);
    return read_checkpoint(app, run_or_file, fs::path(run_or_file).stem().string(), verify);
  }
  const std::string last = checkpoint_path(run_or_file), previous = previous_path(run_or_file);
  const std::string name = last_name(run_or_file);
  if (!fs::exists(last) && !fs::exists(previous))
    fail("checkpoint", run_or_file + " holds no checkpoint.safetensors: it is not the folder of a run");
  try {
    return read_checkpoint(app, last, name, verify);
  } catch (const Error& damage) {
    if (!fs::exists(previous)) throw;
    std::optional<Checkpoint> before;
    try {
      before = read_checkpoint(app, previous, name, verify);
    } catch (const Error& also) {
      fail("checkpoint",
           fmt::format("{}; nor can the one before it be used: {}", damage.what(), also.what()));
    }
    note("{}; the one before it is used: {} of step {}\n", damage.what(), previous, before->state.step);
    return *before;
  }
}

bool has_average(const Checkpoint& c) {
  const auto it = c.file.tensors.lower_bound(std::string(ema_prefix));
  return it != c.file.tensors.end() && it->first.starts_with(ema_prefix);
}

Named Checkpoint::parameters() const {
  Named own;
  for (const auto& [name, t] : file.tensors)
    if (!name.starts_with(optimizer_prefix) && !name.starts_with(ema_prefix)) own.push_back({name, t});
  return own;
}

Named Checkpoint::averages() const {
  if (file.tensors.contains(flat_average))
    fail("checkpoint", path +
                           " holds its averaged weights as earlier versions did; write them to a file with "
                           "`export` and give that");
  Named all;
  for (const auto& [name, t] : file.tensors)
    if (name.starts_with(ema_prefix)) all.emplace_back(name.substr(ema_prefix.size()), t);
  for (const auto& [name, t] : parameters())
    if (!is_floating(t.dtype())) all.emplace_back(name, t);
  return all;
}

void check_parameters(const nn::Module& model, const std::vector<std::pair<std::string, Tensor>>& tensors,
                      const std::string& file) {
  std::map<std::string, Tensor> given(tensors.begin(), tensors.end());
  NameList missing, mismatched, unexpected;
  for (const nn::NamedTensor& p : model.state()) {
    const auto it = given.find(p.name);
    if (it == given.end()) {
      missing.add(p.name);
      continue;
    }
    const bool codes = p.tensor->dtype() == DType::i8;
    if (codes != (it->second.dtype() == DType::i8))
      mismatched.add(p.name + " " + name_of(it->second.dtype()) + " (need " + name_of(p.tensor->dtype()) +
                     ")");
    else if (it->second.shape() != p.tensor->shape())
      mismatched.add(p.name + " " + it->second.shape().str() + " (need " + p.tensor->shape().str() + ")");
    given.erase(it);
  }
  for (const auto& [name, t] : given) unexpected.add(name);
  const std::string text =
      missing.text("missing") + mismatched.text("of another shape or type") + unexpected.text("unexpected");
  if (!text.empty()) fail("checkpoint", file + " does not fit the model" + text);
}

void load_parameters(nn::Module& model, const std::vector<std::pair<std::string, Tensor>>& tensors,
                     const std::string& file) {
  check_parameters(model, tensors, file);
  std::map<std::string, Tensor> given(tensors.begin(), tensors.end());
  for (const nn::NamedTensor& p : model.state()) copy_values(*p.tensor, given[p.name].to(p.tensor->dtype()));
}

void load_parameters(nn::Module& model, const Checkpoint& c, bool ema) {
  if (!ema) return load_parameters(model, c.parameters(), c.path);
  if (!has_average(c)) fail("checkpoint", c.path + " holds no averaged weights; train with --ema");
  load_parameters(model, averages(c, model), c.path + " (averaged weights)");
}

bool all_finite(const Tensor& t) {
  const float* values = t.data<float>();
  std::atomic<bool> finite = true;
  parallel_for(t.numel(), 1 << 16, [&](int64_t begin, int64_t end) {
    bool range_is_finite = true;
    for (int64_t i = begin; i < end; ++i) range_is_finite &= std::isfinite(values[i]);
    if (!range_is_finite) finite = false;
  });
  return finite;
}

void save_checkpoint(const std::string& path, const std::string& app, const Json& config,
                     const RunState& state, nn::Module& model, nn::Optimizer& optimizer, const nn::Ema* ema,
                     const std::string& old_name) {
  std::map<std::string, Tensor> tensors = tensors_of(model);
  for (const nn::NamedTensor& s : optimizer.state()) tensors[s.name] = on_cpu(*s.tensor);
  if (ema)
    for (const auto& [name, average] : ema->named())
      tensors[std::string(ema_prefix) + name] = on_cpu(average);
  for (const auto& [name, t] : tensors)
    if (is_floating(t.dtype()) && !all_finite(t))
      throw NotFinite(fmt::format("{} is not finite after step {}", name, state.step));
  std::map<std::string, std::string> words = {{"format", "pt"},
                                              {"app", app},
                                              {"config", config.dump()},
                                              {"progress", fields_to_json(state).dump()},
                                              {"streams", std::to_string(streams::version)},
                                              {"optimizer_steps", std::to_string(optimizer.steps())}};
  add_checksums(tensors, words);
  save_safetensors(path, tensors, words, old_name);
}

void save_weights(const std::string& path, const std::string& app, const Json& config,
                  const nn::Module& model) {
  const std::map<std::string, Tensor> tensors = tensors_of(model);
  std::map<std::string, std::string> words = {{"format", "pt"}, {"app", app}, {"config", config.dump()}};
  add_checksums(tensors, words);
  save_safetensors(path, tensors, words);
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
  if (ema) {
    const Named saved = averages(c, model);
    check_parameters(model, saved, c.path + " (averaged weights)");
    std::map<std::string, Tensor> values(saved.begin(), saved.end());
    for (const auto& [name, average] : ema->named()) copy_values(average, values[name]);
  }
  if (metadata(c.file, "optimizer_steps", c.path) != std::to_string(c.state.step))
    fail("checkpoint", c.path + ": optimizer and progress disagree on the step");
  optimizer.set_steps(c.state.step);
  return c.state;
}

}  // namespace pursuit::apps
