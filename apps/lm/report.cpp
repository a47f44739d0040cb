#include "apps/common/report.h"

#include <fmt/format.h>

#include <cmath>

#include "apps/common/metrics.h"
#include "apps/common/run_lock.h"
#include "apps/lm/commands.h"
#include "apps/lm/inspect.h"
#include "apps/lm/run_record.h"
#include "apps/training/report_parts.h"

namespace pursuit::lm {

namespace {

using apps::LineChart, apps::LineSeries, apps::Report;

void add_highlights(Report& report, const RunRecord& r) {
  std::vector<apps::Highlight> h;
  if (const auto perplexity = r.last("valid_perplexity"))
    h.push_back({"Validation perplexity", fmt::format("{:.2f}", *perplexity),
                 r.config ? "by " + std::string(choice_name(r.config->rows)) : ""});
  for (const char* window : {"blocks", "documents", "sliding"}) {
    std::vector<Results> tested = apps::of_last_step(r.results, r);
    std::erase_if(tested, [&](const Results& result) {
      return result.split != "test" || !result.attack.empty() || result.window != window;
    });
    const auto own = [&](const Results& result) { return result.data == data_name(*r.config); };
    const Results* main =
        r.config ? apps::main_evaluation(tested, apps::evaluated_weights(*r.config), own) : nullptr;
    if (main)
      h.push_back({"Test perplexity", fmt::format("{:.2f}", main->perplexity()),
                   fmt::format("{}; {}", main->window == "sliding" ? "sliding window" : main->window,
                               apps::describe(*main, "tokens"))});
  }
  if (r.config)
    if (const double nats = source_entropy(*r.config); nats > 0)
      h.push_back({"The grammar's own", fmt::format("{:.2f}", std::exp(nats)), "perplexity of its entropy"});
  if (const auto entropy = r.last("attention_entropy"))
    h.push_back({"Attention entropy", fmt::format("{:.2f}", *entropy), "nats, mean over heads"});
  apps::add_training_highlights(h, r, "tokens");
  if (!h.empty()) report.highlights(h);
}

void add_training(Report& report, const RunRecord& r) {
  if (r.metrics.empty()) return;
  report.section("Training");
  const auto series = [&](const char* key) { return apps::metric_series(r.metrics, key); };
  const auto loss = series("loss"), valid = series("valid_loss"), perplexity = series("valid_perplexity");
  if (!loss.empty()) {
    LineChart chart{"Loss", "step", "cross-entropy, nats a token", {}};
    chart.series.push_back({.name = "training", .points = loss, .smooth = true});
    if (!valid.empty()) chart.series.push_back({.name = "validation", .points = valid, .dashed = true});
    if (r.config && r.config->locater > 0)
      chart.caption = "The cross-entropy alone, without the regulariser.";
    report.chart(chart);
  }
  if (!perplexity.empty())
    report.chart(
        LineChart{"Validation perplexity", "step", "", {{.name = "validation", .points = perplexity}}});
  add_rate_charts(report, r, "tokens");
}

// Everything that eval.json holds, also of other steps.
void add_evaluations(Report& report, const RunRecord& r) {
  if (r.results.empty()) return;
  report.section("All evaluations");
  apps::Table table{{"data", "split", "window", "word swap", "tokens", "weights", "step", "dtype", "loss",
                     "perplexity", "by"},
                    {}};
  for (const Results& e : r.results)
    table.rows.push_back({e.data, e.split, e.window, e.attack.empty() ? "none" : e.attack,
                          std::to_string(e.count), e.weights, std::to_string(e.step),
                          e.dtype.empty() ? "-" : e.dtype, fmt::format("{:.4f}", e.loss),
                          fmt::format("{:.3f}", e.perplexity()), program(e)});
  report.table(table,
               "Everything in eval.json, the one written last at the end. By blocks or documents every token "
               "is predicted from those before it there; by a sliding window from as many as the model can "
               "take. Perplexities of different vocabularies cannot be compared.");
}

// How attention changed, means over the heads.
void add_attention_curves(Report& report, const RunRecord& r) {
  const struct {
    const char *key, *title, *measure;
  } charts[] = {{"attention_entropy", "Attention entropy", "nats"},
                {"qk_trace", "tr W", "mean over the heads"},
                {"qk_norm", "|W|_F", "mean over the heads"},
                {"qk_concentration", "r = tr W / |W|_F", "mean over the heads"}};
  bool first = true;
  for (const auto& [key, title, measure] : charts) {
    const auto points = apps::metric_series(r.metrics, key);
    if (points.size() < 2) continue;
    if (first) report.section("Attention during training");
    first = false;
    report.chart(LineChart{title, "step", measure, {{.name = title, .points = points}}});
  }
}

std::string eval_command(const std::string& folder, const Results& r) {
  return fmt::format("lm eval --checkpoint {}{} --window {}", apps::quoted(folder),
                     r.options.empty() ? " --split " + r.split : " " + r.options, r.window);
}

void add_sample(Report& report, const RunRecord& r) {
  report.section("A sample");
  try {
    const LoadedModel loaded = load_model(r.folder);
    Random random(0);
    std::vector<int32_t> unknown;
    if (const int32_t word = loaded.vocabulary.unknown(); word >= 0) unknown.push_back(word);
    const GenerationOptions options{.count = loaded.vocabulary.is_bytes() ? 400 : 100,
                                    .sampling = {.temperature = 0.8, .forbidden = unknown},
                                    .lines_stand_alone = lines_stand_alone(loaded.config)};
    const std::vector<int32_t> text =
        generate(*loaded.model, loaded.vocabulary.line_end(), {}, options, random);
    report.paragraph(fmt::format("Words drawn one after the other at temperature 0.8, from an empty line{}.",
                                 unknown.empty() ? "" : ", never <unk>"));
    report.code(loaded.vocabulary.decode(text));
  } catch (const std::exception& e) {
    report.paragraph(fmt::format("Left out, because the model could not be opened: {}", e.what()));
  }
}

}  // namespace

void write_report(const std::string& folder) {
  const apps::FolderLock lock(folder);
  RunRecord record("lm", folder);
  std::optional<Inspection> inspection;
  record.attempt("inspect.json", [&](const std::string& file) {
    try {
      inspection = inspection_from_json(apps::read_json_object(file));
    } catch (const std::exception& e) {
      fail("report", fmt::format("{} is damaged ({}); run `lm inspect` again", file, e.what()));
    }
  });
  Report report(
      record.config ? "Language model with " + describe_attention(*record.config) : "Language model",
      record.config ? fmt::format("{}: {}, {} blocks of width {}, {} tokens, seed {}", record.name,
                                  data_name(*record.config), record.config->depth, record.config->dim,
                                  record.config->context, record.config->seed)
                    : record.name);
  add_highlights(report, record);
  add_training(report, record);
  add_evaluations(report, record);
  add_attention_curves(report, record);
  if (inspection) add_inspection(report, *inspection);
  add_sample(report, record);
  if (record.config) {
    apps::add_configuration(report, apps::options_to_json(*record.config),
                            {{"words", std::to_string(vocabulary(*record.config).size())}});
    report.section("Reproduce");
    std::string commands = apps::train_command("lm", record.folder, *record.config) + "\n";
    for (const Results& r : apps::of_last_step(record.results, record)) {
      const std::string command = eval_command(record.folder, r) + "\n";
      if (commands.find(command) == std::string::npos) commands += command;
    }
    report.code(commands + "lm report " + apps::quoted(record.folder) + "\n");
  }
  apps::finish_report(report, record);
}

}  // namespace pursuit::lm
