#include <fmt/format.h>

#include <algorithm>

#include "apps/lm/commands.h"
#include "apps/lm/run_record.h"

namespace pursuit::lm {

namespace {

using apps::Best, apps::Column;

const Column perplexity{.name = "perplexity", .best = Best::lowest},
    entropy{.name = "entropy", .decimals = 3, .best = Best::none}, trace{.name = "tr W", .best = Best::none},
    norm{.name = "|W|_F", .best = Best::none}, concentration{.name = "r", .best = Best::none};

// Whether an evaluation is another one than the validation at the end of training, and of the run's data.
bool is_other(const Results& r, const RunRecord& run) {
  return r.data == data_name(*run.config) && !(r.split == "valid" && r.loss == run.last("valid_loss"));
}

// Evaluations of one name can be compared.
std::string evaluation_column(const Results& r) {
  return fmt::format("{}, {}{}{}, {} tokens", r.split, r.window,
                     r.attack.empty() ? "" : ", swapped words (" + r.attack + ")", r.ema ? ", averaged" : "",
                     r.tokens);
}

apps::ComparedRun compared(const RunRecord& run) {
  apps::ComparedRun c{.name = run.name,
                      .options = apps::options_to_json(*run.config),
                      .attention = describe_attention(*run.config),
                      .parameters = apps::parameter_count<nn::TransformerLm>(*run.config),
                      .measures = {},
                      .data = {}};
  c.add(perplexity.name, run.last("valid_perplexity"));
  c.add(entropy.name, run.last("attention_entropy"));
  c.add(trace.name, run.last("qk_trace"));
  c.add(norm.name, run.last("qk_norm"));
  c.add(concentration.name, run.last("qk_concentration"));
  for (const Results& r : run.results)
    if (is_other(r, run)) c.add(evaluation_column(r), r.perplexity());
  c.add_training(run, "tokens");
  return c;
}

}  // namespace

apps::Comparison compare_runs(const std::vector<std::string>& folders) {
  std::vector<apps::ComparedRun> runs;
  std::vector<Column> columns{perplexity};
  for (const std::string& folder : folders) {
    const RunRecord record(folder);
    if (!record.config) apps::fail_no_run(record);
    runs.push_back(compared(record));
    for (const Results& r : record.results) {
      const Column column{.name = evaluation_column(r), .best = Best::lowest};
      const auto same = [&](const Column& other) { return other.name == column.name; };
      if (is_other(r, record) && std::none_of(columns.begin(), columns.end(), same))
        columns.push_back(column);
    }
  }
  columns.insert(columns.end(), {entropy, trace, norm, concentration});
  const std::vector<Column> more = apps::training_columns("tokens");
  columns.insert(columns.end(), more.begin(), more.end());
  return apps::compare_runs(runs, columns);
}

}  // namespace pursuit::lm
