#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>

#include "apps/command/options.h"
#include "apps/study/loaded_model.h"
#include "apps/study/run_commands.h"

namespace pursuit::apps {

// Records one forward pass after a warm-up pass and prints calls, time and bytes held for backward of each
// operator. With `file` (.svg or .dot) also writes the graph. An .svg needs Graphviz; without it writes a
// .dot and prints how to convert it. Throws Error for another file name extension.
void report_tape(const std::function<Tensor()>& loss, const nn::Module& model, const std::string& file);

// Adds `inspect`. loss(model, config, batch size) returns the loss of a training step on generated input.
template <class Config, class Loss> void add_inspect_command(CLI::App& app, int64_t batch_size, Loss loss) {
  struct Options {
    std::string checkpoint, tape;
    LoadOptions load;
    int64_t batch_size;
  };
  const auto o = std::make_shared<Options>();
  o->batch_size = batch_size;
  CLI::App* command =
      app.add_subcommand("inspect", "Show the operators that a step records, with time and memory");
  add_load_options(*command, o->checkpoint, o->load);
  command->add_option("--tape", o->tape, "Write the recorded graph, as .svg (by Graphviz) or .dot");
  add_number(*command, "--batch-size", o->batch_size, "Number of pictures in the step", Range{1, 1e6});
  command->callback([o, loss] {
    const auto loaded = load_model<Config>(o->checkpoint, o->load);
    for (const nn::NamedTensor& p : loaded.model->parameters()) p.tensor->requires_grad();
    loaded.model->set_training(true);
    report_tape([&] { return loss(*loaded.model, loaded.config, o->batch_size); }, *loaded.model, o->tape);
  });
}

}  // namespace pursuit::apps
