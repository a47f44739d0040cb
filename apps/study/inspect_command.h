#pragma once
#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>

#include "apps/command/choice.h"
#include "apps/command/options.h"
#include "apps/page/heatmap.h"
#include "apps/study/inspect_options.h"
#include "apps/study/inspection.h"
#include "apps/study/loaded_model.h"
#include "apps/study/run_commands.h"
#include "apps/study/run_page.h"
#include "apps/study/tape_report.h"
#include "apps/terminal/print.h"
#include "apps/training/provenance.h"

namespace pursuit::apps {

// Adds the options of every `inspect`; `sample` is what the model is shown: "pictures".
void add_inspect_options(CLI::App& command, InspectOptions& options, const std::string& sample,
                         const LoadChoices& choices);

// One call of `inspect` of an app on pictures. show(loaded, options, inspection, conditions) shows the model the
// samples, notes the data in the conditions, and returns a picture to film. Returns the exit code.
template <class Record, class Show>
int inspect_pictures(const InspectPicturesOptions& options, const Show& show) {
  using Config = typename Record::Config;
  const std::string run =
      run_id(options.checkpoint);  // before the weights, which another training may replace
  const auto loaded = load_model<Config>(options.checkpoint, options.load);
  nn::AttentionInspection inspection(*loaded.model, {.decomposed = options.decomposed});
  Inspection found;
  found.conditions = conditions(loaded.config, loaded.weights, loaded.state.step, run);
  const Filmed filmed = show(loaded, options, inspection, found.conditions);
  found.layers = inspection.layers();
  if (found.layers.empty()) fail("inspect", loaded.name + ": the model has no attention layers");
  if (options.json)
    print("{}\n", to_json(found).dump());
  else
    print(found.layers);
  if (!std::filesystem::is_directory(options.checkpoint)) return 0;
  data::Image film;
  const nn::PursuitMaps maps = nn::pursuit_maps(*loaded.model, [&] { (*loaded.model)(filmed.input); });
  if (!maps.low_rank.empty()) {
    const auto patches = [&](std::vector<std::vector<float>> tokens) {
      for (std::vector<float>& map : tokens) {
        const auto first = map.begin() + filmed.before;
        map = {first, first + filmed.rows * filmed.cols};
      }
      return tokens;
    };
    film = film_strip(filmed.picture, {patches(maps.low_rank), patches(maps.sparse)}, int(filmed.rows),
                      int(filmed.cols));
  }
  write_inspection(options.checkpoint, run, to_json(found), film);
  write_report<Record>(options.checkpoint);
  return 0;
}

// Adds `inspect` of an app on pictures. loss(model, config, batch size) returns the loss of a training step on
// generated input, for --tape.
template <class Record, class Loss, class Show>
void add_inspect_command(CLI::App& app, int& code, int64_t batch_size, Loss loss, Show show) {
  using Config = typename Record::Config;
  struct Options : InspectPicturesOptions {
    std::string tape;
    int64_t batch_size;
  };
  const auto o = std::make_shared<Options>();
  o->batch_size = batch_size;
  CLI::App* command = app.add_subcommand(
      "inspect", "Measure every head's attention as kernel PCA; with --tape the operators of a step");
  add_inspect_options(*command, *o, "pictures", {.simulated = std::is_base_of_v<QuantizedFields, Config>});
  add_choice<data::Split>(*command, "--split", o->split, "Split to take pictures from")
      ->default_str(choice_name(o->split));
  CLI::Option* tape = command->add_option(
      "--tape", o->tape,
      "Show instead the operators that a step records, with time and memory, and write the recorded "
      "graph, as .svg (by Graphviz) or .dot");
  add_number(*command, "--batch-size", o->batch_size, "--tape: number of pictures in the step",
             Range{1, 1e6});
  for (const char* option : {"--data", "--samples", "--decompose", "--split", "--json"})
    tape->excludes(option);  // it shows no pictures of the data
  refuse_without_effect(*command, {{{"--batch-size"}, {"--tape"}}});
  command->callback([&code, o, loss, show] {
    if (o->tape.empty()) {
      code = inspect_pictures<Record>(*o, show);
      return;
    }
    const auto loaded = load_model<Config>(o->checkpoint, o->load);
    for (const nn::NamedTensor& p : loaded.model->parameters()) p.tensor->requires_grad();
    loaded.model->set_training(true);
    report_tape([&] { return loss(*loaded.model, loaded.config, o->batch_size); }, *loaded.model, o->tape);
  });
}

}  // namespace pursuit::apps
