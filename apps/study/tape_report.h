#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>

#include "apps/command/options.h"
#include "apps/study/loaded_model.h"
#include "apps/study/run_commands.h"

namespace pursuit::apps {

// Records one forward pass, after one that warms up, and prints what each kind of operator took: calls, time, bytes
// held for backward. With `file` (.svg or .dot) the graph is written too, as SVG by Graphviz; where that is not
// installed the .dot is written, with a line that says how to get on. Throws Error for another ending.
void report_tape(const std::function<Tensor()>& loss, const nn::Module& model, const std::string& file);

// Adds `inspect`: loss(model, config, batch size) is that of a training step on pictures of one's own making.
template <class Config, class Loss> void add_inspect_command(CLI::App& app, int64_t batch_size, Loss loss) {
  struct Options {
    std::string checkpoint, tape;
    LoadOptions load;
    int64_t batch_size;
  };
  const auto o = std::make_shared<Options>();
  o->batch_size = batch_size;
  CLI::App* command = app.add_subcommand("inspect", "What a step records: operators, time, memory");
  add_load_options(*command, o->checkpoint, o->load);
  command->add_option("--tape", o->tape, "Write the recorded graph, as .svg (by Graphviz) or .dot");
  add_number(*command, "--batch-size", o->batch_size, "Pictures of the step", Range{1, 1e6});
  command->callback([o, loss] {
    const auto loaded = load_model<Config>(o->checkpoint, o->load);
    for (const nn::NamedTensor& p : loaded.model->parameters()) p.tensor->requires_grad();
    loaded.model->set_training(true);
    report_tape([&] { return loss(*loaded.model, loaded.config, o->batch_size); }, *loaded.model, o->tape);
  });
}

}  // namespace pursuit::apps
