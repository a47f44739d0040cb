#include <fmt/format.h>

#include "apps/lm/commands.h"
#include "apps/lm/run_record.h"
#include "apps/training/comparison_page.h"
#include "data/fingerprint.h"

namespace pursuit::lm {

namespace {

using apps::Best, apps::Column;

// Perplexities of different vocabularies cannot be compared.
std::string describe_vocabulary(const Config& c) {
  if (c.level == Level::byte) return "bytes";
  return fmt::format("{} words {}", vocabulary(c).size(), data::fingerprint(c.vocabulary).substr(0, 6));
}

apps::ComparedRun compared(const RunRecord& run) {
  const Config& config = *run.config;
  const std::string own = apps::evaluated_weights(config);
  apps::ComparedRun c{.name = run.name,
                      .options = apps::compared_options(run),
                      .attention = describe_attention(config),
                      .parameters = apps::parameter_count<nn::TransformerLm>(config),
                      .weights = {},
                      .programs = {},
                      .problems = run.problems,
                      .values = {}};
  const std::vector<Results> results = apps::of_last_step(run.results, run);
  const std::string words = describe_vocabulary(config);
  for (const Results& r : results) {
    apps::MeasuredWith with = apps::measured_with(r, "tokens", own);
    for (const auto& [key, value] :
         {std::pair{"split", r.split}, {"window", r.window}, {"vocabulary", words}, {"word swap", r.attack}})
      if (!value.empty()) with.emplace_back(key, value);
    c.add({.name = r.attack.empty() ? "perplexity" : "perplexity, words swapped",
           .best = Best::lowest,
           .with = with},
          r.perplexity());
    c.weights = own == "ema" ? "averaged" : "raw";
    if (r.made_by.is_object()) c.programs = program(r);
  }
  if (results.empty())
    c.add({.name = "validation perplexity in training", .best = Best::lowest}, run.last("valid_perplexity"));
  for (const auto& [name, key, decimals] : {std::tuple{"entropy", "attention_entropy", 3},
                                            {"tr W", "qk_trace", 2},
                                            {"|W|_F", "qk_norm", 2},
                                            {"r", "qk_concentration", 2}})
    c.add({.name = name, .decimals = decimals, .best = Best::none, .place = 1}, run.last(key));
  c.add_training(run, "tokens");
  return c;
}

apps::Comparison compare(const std::vector<RunRecord>& records) {
  std::vector<apps::ComparedRun> runs;
  for (const RunRecord& record : records) runs.push_back(compared(record));
  return apps::compare_runs(runs);
}

}  // namespace

apps::Comparison compare_runs(const std::vector<std::string>& folders) {
  return compare(apps::read_runs<RunRecord>("lm", folders));
}

void write_comparison(const std::string& file, const std::vector<std::string>& folders) {
  const std::vector<RunRecord> records = apps::read_runs<RunRecord>("lm", folders);
  std::vector<const apps::RunFolder*> runs;
  for (const RunRecord& r : records) runs.push_back(&r);
  apps::write_comparison(
      file, compare(records), runs,
      {.app = "lm",
       .title = fmt::format("Comparison of {} language models", records.size()),
       .curves = {
           {.title = "Training loss", .key = "loss", .unit = "cross-entropy, nats a token", .smooth = true},
           {.title = "Validation perplexity", .key = "valid_perplexity", .unit = ""},
           {.title = "Attention entropy", .key = "attention_entropy", .unit = "nats"}}});
}

}  // namespace pursuit::lm
