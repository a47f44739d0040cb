#pragma once
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "apps/study/loaded_model.h"
#include "apps/study/run_commands.h"
#include "apps/terminal/print.h"

namespace pursuit::apps {

// Writes a model's parameters and buffers under their names as safetensors, without training state. Config
// and checksums are in the metadata, so that the app's other commands read the file as a checkpoint. The
// config's `ema` is 0, because the file has one set of weights. Throws Error if `file` is one of a run's.
template <class Config> void export_weights(const LoadedModel<Config>& loaded, const std::string& file) {
  prepare_output(file);
  Config config = loaded.config;
  config.ema = 0;
  save_weights(file, Config::app, fields_to_json(config), *loaded.model);
  print("{}: {} tensors\n", file, loaded.model->state().size());
}

// Adds `export` to an app's command line.
template <class Config> void add_export_command(CLI::App& app, const std::string& help) {
  struct Options {
    std::string checkpoint, file;
    LoadOptions load;
  };
  const auto o = std::make_shared<Options>();
  o->load.device = "cpu";
  CLI::App* command = app.add_subcommand("export", help);
  command->add_option("--checkpoint", o->checkpoint, "Folder of a run, or a checkpoint file")->required();
  command->add_option("file", o->file, "The safetensors file to write")->required();
  add_weights_option(*command, o->load);
  command->callback([o] { export_weights(load_model<Config>(o->checkpoint, o->load), o->file); });
}

}  // namespace pursuit::apps
