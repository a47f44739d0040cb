#include "apps/page/report.h"

#include <fmt/format.h>

#include <cmath>

#include "apps/lm/commands.h"
#include "apps/lm/inspect.h"
#include "apps/lm/results.h"
#include "apps/study/inspection.h"
#include "data/fingerprint.h"

namespace pursuit::lm {

using apps::Best, apps::Column, apps::Report;

namespace {

std::vector<apps::Highlight> highlights(const RunRecord& r) {
  std::vector<apps::Highlight> h;
  if (const auto perplexity = r.last("valid_perplexity"))
    h.push_back({"Validation perplexity", fmt::format("{:.2f}", *perplexity),
                 !r.config            ? ""
                 : r.config->masked() ? describe_objective(*r.config)
                                      : "by " + std::string(choice_name(r.config->rows))});
  for (const std::string& window : choice_names<Window>()) {
    std::vector<Results> tested = r.newest;
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
  return h;
}

std::vector<apps::Curve> training_curves(const Config* config) {
  const auto of_heads = [](const char* title, const char* key, const char* unit) {
    return apps::Curve{.title = title, .unit = unit, .lines = {{key, title}}};
  };
  std::vector<apps::Curve> all = {
      {.title = "Loss",
       .unit = "cross-entropy, nats a token",
       .lines = {{.key = "loss", .name = "training", .smooth = true},
                 {.key = "valid_loss", .name = "validation", .dashed = true}}},
      {.title = "Validation perplexity", .unit = "", .lines = {{"valid_perplexity", "validation"}}},
      of_heads("Attention entropy", "attention_entropy", "nats, mean over the heads"),
      of_heads("tr W", "qk_trace", "mean over the heads"),
      of_heads("|W|_F", "qk_norm", "mean over the heads"),
      of_heads("r = tr W / |W|_F", "qk_concentration", "mean over the heads")};
  if (config && config->locater > 0) all[0].caption = "The cross-entropy alone, without the regulariser.";
  return all;
}

std::string eval_command(const std::string& folder, const Results& r) {
  return fmt::format("lm eval --checkpoint {}{} --window {}", apps::quoted(folder),
                     r.options.empty() ? " --split " + r.split : " " + r.options, r.window);
}

void add_sample(Report& report, const RunRecord& r) {
  const auto loaded = apps::load_model<Config>(r.folder);
  const data::Vocabulary words = vocabulary(loaded.config);
  Random random(0);
  std::vector<int64_t> unknown;
  if (const int64_t word = words.unknown(); word >= 0) unknown.push_back(word);
  const nn::GenerationOptions options{.count = words.is_bytes() ? 400 : 100,
                                      .sampling = {.temperature = 0.8, .forbidden = unknown},
                                      .lines_stand_alone = lines_stand_alone(loaded.config)};
  const std::vector<int64_t> text = nn::generate(*loaded.model, words.line_end(), {}, options, random);
  report.paragraph(fmt::format("Words drawn one after the other at temperature 0.8, from an empty line{}.",
                               unknown.empty() ? "" : ", never <unk>"));
  report.code(words.decode(text));
}

// Identifies the vocabulary: perplexities of different vocabularies are not comparable.
std::string describe_vocabulary(const Config& c) {
  if (c.level == Level::byte) return "bytes";
  return fmt::format("{} words {}", vocabulary(c).size(), data::fingerprint(c.vocabulary).substr(0, 6));
}

}  // namespace

apps::Cells cells_of(const Results& e) {
  return {{"split", e.split},
          {"window", e.objective.empty() ? e.window : e.window + ", " + e.objective},
          {"contamination", e.attack.empty() ? "none" : e.attack},
          {"loss", fmt::format("{:.4f}", e.loss)},
          {"perplexity", fmt::format("{:.3f}", e.perplexity())}};
}

apps::RunPage page_of(RunRecord& r) {
  apps::RunPage page;
  page.title = r.config ? "Language model with " + describe_attention(*r.config) : "Language model";
  page.subtitle = r.config ? fmt::format("{}: {}, {} blocks of width {}, {} tokens, seed {}", r.name,
                                         data_name(*r.config), r.config->depth, r.config->dim,
                                         r.config->context, r.config->seed)
                           : r.name;
  page.highlights = highlights(r);
  page.curves = training_curves(r.config ? &*r.config : nullptr);
  r.attempt("inspect.json", [&](const std::string& file) {
    try {
      const Inspection inspection = inspection_from_json(apps::read_json_object(file));
      page.results = [inspection](Report& report) { add_inspection(report, inspection); };
    } catch (const std::exception& e) {
      fail("report", fmt::format("{} is damaged ({}); run `lm inspect` again", file, e.what()));
    }
  });
  apps::show_inspections(r, page, /*with_inspection=*/false);
  page.evaluations_caption =
      "By blocks or documents every token is predicted from those before it there; by a sliding window from "
      "as many as the model can take; masked words from both sides. Perplexities of different vocabularies "
      "cannot be compared, nor those of masked words with others.";
  if (r.config && !r.config->masked()) {
    page.samples_title = "A sample";
    page.samples = [&r](Report& report) { add_sample(report, r); };
  }
  if (r.config) page.facts = {{"words", std::to_string(vocabulary(*r.config).size())}};
  for (const Results& e : r.newest) page.commands.push_back(eval_command(r.folder, e));
  return page;
}

apps::ComparedRun compared(const RunRecord& run) {
  const Config& config = *run.config;
  const std::string own = apps::evaluated_weights(config), words = describe_vocabulary(config);
  apps::ComparedRun c = apps::compared_run(run);
  for (const Results& r : run.newest) {
    apps::MeasuredWith with = apps::measured_with(r, "tokens", own);
    for (const auto& [key, value] : {std::pair{"split", r.split},
                                     {"window", r.window},
                                     {"vocabulary", words},
                                     {"objective", r.objective},
                                     {"contamination", r.attack}})
      if (!value.empty()) with.emplace_back(key, value);
    c.add({.name = r.attack.empty() ? "perplexity" : "perplexity, contaminated",
           .best = Best::lowest,
           .with = with},
          r.perplexity());
    c.measured(r, own);
  }
  if (run.newest.empty())
    c.add({.name = "validation perplexity in training", .best = Best::lowest}, run.last("valid_perplexity"));
  for (const auto& [name, key, decimals] : {std::tuple{"entropy", "attention_entropy", 3},
                                            {"tr W", "qk_trace", 2},
                                            {"|W|_F", "qk_norm", 2},
                                            {"r", "qk_concentration", 2},
                                            {"propagation, formula - walks", "propagation_error", 3}})
    c.add({.name = name, .decimals = decimals, .best = Best::none, .place = 1}, run.last(key));
  return c;
}

apps::ComparisonPage comparison_page(const std::vector<RunRecord>& runs) {
  return {.title = fmt::format("Comparison of {} language models", runs.size()),
          .curves = training_curves(nullptr)};
}

}  // namespace pursuit::lm
