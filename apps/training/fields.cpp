#include "apps/training/fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "apps/command/checks.h"
#include "apps/command/options.h"

namespace pursuit::apps {

namespace {

std::string layers_of_old(int64_t n, bool first_ones) {
  if (n < 0) return "all";
  if (!first_ones) return std::to_string(n);
  return n == 0 ? "none" : n == 1 ? "0" : "0-" + std::to_string(n - 1);
}

const char* old_name(bool causal) { return causal ? "iterated-layers" : "layer"; }

std::vector<std::string> kinds_of(bool causal) {
  std::vector<std::string> names = nn::attention_kinds();
  if (causal)
    std::erase_if(names,
                  [](const std::string& name) { return !nn::attention_kind(name).traits.may_be_causal; });
  return names;
}

std::vector<nn::KindOption> with_kinds_named(bool causal) {
  std::vector<nn::KindOption> options = nn::attention_options();
  if (!causal) std::erase_if(options, [](const nn::KindOption& option) { return option.of_causal; });
  const std::vector<std::string> offered = kinds_of(causal);
  for (nn::KindOption& option : options) {
    std::erase_if(option.kinds, [&](const std::string& kind) {
      return std::find(offered.begin(), offered.end(), kind) == offered.end();
    });
    option.help =
        option.kinds.empty() ? "" : fmt::format("{}: {}", fmt::join(option.kinds, ", "), option.help);
  }
  return options;
}

}  // namespace

void AttentionFields::read_old(const nlohmann::ordered_json& config) {
  const char* name = old_name(causal);
  const std::vector<std::string> kinds = nn::attention_kinds();
  if (config.contains("layers") || !config.contains(name) ||
      std::find(kinds.begin(), kinds.end(), attention) == kinds.end() ||
      !nn::attention_kind(attention).traits.iterates)
    return;
  int64_t n = 0, depth = 0;
  if (!read_member(config, name, n).empty()) return;
  if (causal && config.contains("depth") && read_member(config, "depth", depth).empty())
    n = std::min(n, depth);
  layers = layers_of_old(n, causal);
}

void AttentionFields::add_old(CLI::App& app) {
  app.add_option_function<int64_t>(std::string("--") + old_name(causal),
                                   [this](const int64_t& n) { layers = layers_of_old(n, causal); })
      ->group("")
      ->check(within({-1, 1000}))
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

std::string kinds_help(bool causal) {
  return fmt::format("Attention kind: {}", fmt::join(kinds_of(causal), ", "));
}

const std::vector<nn::KindOption>& options_of_kinds(bool causal) {
  static const std::vector<nn::KindOption> any = with_kinds_named(false), of_causal = with_kinds_named(true);
  return causal ? of_causal : any;
}

nn::AttentionConfig attention_config(const AttentionFields& f) {
  return {.kind = f.attention, .options = f.kind_options, .layers = f.layers, .other = f.other_attention};
}

std::vector<nn::KindOption> unused_options(const AttentionFields& f, int64_t depth) {
  const nn::AttentionConfig config = attention_config(f);
  std::set<std::string> used;
  for (int64_t i = 0; i < depth; ++i)
    for (const nn::KindOption& option : nn::attention_kind(nn::of_block(config, i).kind).options)
      used.insert(option.name);
  std::vector<nn::KindOption> unused = nn::attention_options();
  std::erase_if(unused, [&](const nn::KindOption& option) { return used.contains(option.name); });
  return unused;
}

// Must accept any config: one read from a file may not have been validated yet.
std::string describe_attention(const AttentionFields& f, int64_t depth, const std::string& more) {
  constexpr int64_t most_blocks = 1000;  // the largest --depth
  const std::vector<std::string> kinds = nn::attention_kinds();
  if (std::find(kinds.begin(), kinds.end(), f.attention) == kinds.end() || depth > most_blocks ||
      !nn::are_layers(f.layers, depth))
    return f.attention + " attention";
  const nn::KindInfo& kind = nn::attention_kind(f.attention);
  const nn::AttentionConfig config = attention_config(f);
  std::vector<int64_t> blocks;
  for (int64_t i = 0; i < depth; ++i)
    if (nn::runs_kind(config, i)) blocks.push_back(i);
  const int64_t count = int64_t(blocks.size());
  std::string where = fmt::format("block{} {}", count == 1 ? "" : "s", fmt::join(blocks, ", "));
  if (count == depth)
    where = "every block";
  else if (count == 0)
    where = "no block";
  else if (count > 1 && blocks.back() - blocks.front() == count - 1)
    where = fmt::format("blocks {} to {}", blocks.front(), blocks.back());
  if (kind.traits.iterates) where += more;
  const std::string title = kind.title();
  if (!kind.traits.iterates) return count == depth ? title : fmt::format("{} ({})", title, where);
  const int64_t n = std::get<int64_t>(f.kind_options.at("iterations"));
  return fmt::format("{} ({} iteration{}, {})", title, n, n == 1 ? "" : "s", where);
}

data::Share share(const TrainingFields& f, int rank) {
  return {rank * f.accumulate, f.accumulate, f.ranks * f.accumulate};
}

std::string describe_batch(const TrainingFields& f) {
  std::string parts;
  if (f.ranks > 1) parts = fmt::format("{} ranks, ", f.ranks);
  if (f.accumulate > 1) parts += fmt::format("{} times ", f.accumulate);
  const int64_t all = f.ranks * f.accumulate * f.batch_size;
  return parts.empty() ? std::to_string(all) : fmt::format("{} ({}{})", all, parts, f.batch_size);
}

std::string evaluated_weights(const TrainingFields& f) {
  return f.ema > 0 && f.eval_weights == EvalWeights::ema ? "ema" : "raw";
}

std::string same_data(const std::string& recorded, const std::pair<std::string, std::string>& found,
                      const std::string& data) {
  const std::string now = found.first + " " + found.second;
  if (recorded.empty() || recorded == now) return now;
  const bool training = !recorded.starts_with(found.first + " ");
  fail("train",
       fmt::format("{}: not the {} data that the run was started with: names, sizes, classes or order "
                   "of the files differ, or the version that started it told data apart in another way; give "
                   "that --data, go on with that version ('made-by' in config.json), or begin another run",
                   data.empty() ? "the built-in data" : data, training ? "training" : "evaluation"));
}

nn::OptimizerConfig optimizer_config(const TrainingFields& f) {
  nn::OptimizerConfig o;
  o.kind = f.optimizer;
  o.weight_decay = f.weight_decay;
  o.clip_norm = f.clip_norm;
  return o;
}

nn::Schedule schedule(const TrainingFields& f) {
  nn::Schedule s;
  s.kind = f.schedule;
  s.lr = f.lr;
  s.min_lr = f.min_lr;
  s.warmup_lr = f.warmup_lr;
  s.warmup = f.warmup_epochs;
  s.total = double(f.epochs);
  return s;
}

void validate(const char* app, const AttentionFields& f, int64_t depth) {
  const std::vector<std::string> kinds = nn::attention_kinds();
  check_word(app, "attention", f.attention, kinds);
  if (f.other_attention != "auto") check_word(app, "other-attention", f.other_attention, kinds);
  for (const nn::KindOption& option : nn::attention_options())
    if (!option.words.empty())
      check_word(app, option.name.c_str(), std::get<std::string>(f.kind_options.at(option.name)),
                 option.words);
  check_range(app, "layers", f.layers, nn::are_layers(f.layers, depth),
              "all, none, auto, or numbers below --depth such as 0,3-5");
  nn::check(attention_config(f), depth);
}

void validate(const char* app, const TrainingFields& f) {
  const std::string& d = f.device;
  const bool numbered = d.size() == 6 && d.starts_with("cuda:") && d[5] >= '0' && d[5] <= '9';
  check_range(app, "device", d, d == "auto" || d == "cpu" || d == "cuda" || numbered,
              "auto, cpu, cuda, cuda:0, cuda:1 ...");
}

std::optional<nn::QuantizationConfig> quantization_config(const QuantizedFields& f) {
  if (!f.is_quantized()) return {};
  return nn::QuantizationConfig{f.weight_bits, f.activation_bits, f.float_head};
}

void validate(const char* app, const QuantizedFields& f, DType dtype) {
  for (const auto& [name, bits] :
       {std::pair{"weight-bits", f.weight_bits}, {"activation-bits", f.activation_bits}})
    if (f.weight_bits == 0 ? bits != 0 : bits < 2)
      fail(app, fmt::format("'{}' is {}, need {}", name, bits,
                            f.weight_bits == 0 ? "0 beside 0 'weight-bits'" : "2 to 8"));
  if (f.is_quantized() && dtype != DType::f32)
    fail(app, "a quantised model computes in f32; leave --dtype out");
}

}  // namespace pursuit::apps
