#include <algorithm>

#include "apps/common/run_folder.h"
#include "apps/lm/commands.h"
#include "apps/lm/results.h"
#include "apps/training/comparison.h"

namespace pursuit::lm {

namespace {

using apps::Best, apps::Column;

const Column perplexity{.name = "perplexity", .best = Best::lowest},
    entropy{.name = "entropy", .decimals = 3, .best = Best::none}, trace{.name = "tr W", .best = Best::none},
    norm{.name = "|W|_F", .best = Best::none}, concentration{.name = "r", .best = Best::none};

// One evaluation of another kind than the validation at the end of training.
std::string evaluation_column(const Results& r) {
  return r.split + ", " + r.window + (r.attack.empty() ? "" : ", swapped");
}

// What a run says; its evaluations' columns are added to `columns`.
apps::ComparedRun compared(const std::string& folder, std::vector<Column>& columns) {
  apps::RunFolder run(folder);
  apps::ComparedRun c;
  std::optional<Config> config;
  std::vector<Results> results;
  run.attempt("config.json", [&](const std::string& path) {
    c.config = apps::read_json_object(path);
    config = config_from_json(c.config, path);
  });
  if (!config) apps::fail_no_run(run);
  run.attempt("eval.json", [&](const std::string&) { results = read_results(folder); });
  c.name = run.name;
  c.attention = describe_attention(*config);
  const nn::TransformerLm model(model_config(*config));
  int64_t parameters = 0;
  for (const nn::NamedTensor& p : model.parameters()) parameters += p.tensor->numel();
  c.parameters = parameters;
  c.data = data_name(*config);
  c.add(perplexity.name, run.last("valid_perplexity"));
  c.add(entropy.name, run.last("attention_entropy"));
  c.add(trace.name, run.last("qk_trace"));
  c.add(norm.name, run.last("qk_norm"));
  c.add(concentration.name, run.last("qk_concentration"));
  for (const Results& r : results) {
    const Column column{.name = evaluation_column(r), .best = Best::lowest};
    if (r.data != c.data || column.name == "valid, " + config->rows) continue;
    c.add(column.name, r.perplexity());
    const auto same = [&](const Column& other) { return other.name == column.name; };
    if (std::none_of(columns.begin(), columns.end(), same)) columns.push_back(column);
  }
  c.add_training(run, "tokens");
  return c;
}

}  // namespace

int compare(const std::vector<std::string>& folders, bool markdown, bool json) {
  std::vector<apps::ComparedRun> runs;
  std::vector<Column> columns{perplexity};
  for (const std::string& folder : folders) runs.push_back(compared(folder, columns));
  columns.insert(columns.end(), {entropy, trace, norm, concentration});
  const std::vector<Column> more = apps::training_columns("tokens");
  columns.insert(columns.end(), more.begin(), more.end());
  apps::print(apps::compare_runs(runs, columns), markdown, json);
  return 0;
}

}  // namespace pursuit::lm
