#include "apps/study/run_commands.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <set>

#include "apps/command/options.h"
#include "apps/run/run_folder.h"
#include "apps/study/evaluation.h"
#include "apps/study/inspect_command.h"
#include "apps/terminal/print.h"
#include "engine/files/atomic_file.h"

namespace pursuit::apps {

namespace fs = std::filesystem;

void use_quantized(nn::Module& model, const std::string& path, bool simulated) {
  try {
    nn::check_quantized(model);
  } catch (const Error& e) {
    fail("checkpoint", path + ": " + e.what());
  }
  if (simulated) model.quantization()->run = nn::QuantizedRun::simulated;
}

void add_weights_option(CLI::App& command, LoadOptions& o) {
  add_choice<EvalWeights>(command, "--weights", o.weights, "Weights (default: as the run is evaluated)");
  command.add_flag_function(
      "--ema,!--no-ema", [&o](int64_t times) { o.weights = times > 0 ? EvalWeights::ema : EvalWeights::raw; },
      "Short for --weights ema and --weights raw");
  command.add_flag("--no-verify{false}", o.verify,
                   "Do not compare checksums; loading takes a quarter less time");
}

void add_load_options(CLI::App& command, std::string& checkpoint, LoadOptions& o,
                      const LoadChoices& choices) {
  command.add_option("--checkpoint", checkpoint, "Folder of a run, or a checkpoint file")->required();
  add_weights_option(command, o);
  if (choices.device) {
    command.add_option("--device", o.device, device_help)->capture_default_str();
    add_choice<DType>(command, "--dtype", o.dtype,
                      "Data type of the model's computations (default: the run's)");
  }
  add_number(command, "--threads", o.threads, "CPU threads (0: all)", any_threads);
  if (choices.simulated)
    command.add_flag(
        "--simulated", o.simulated,
        "Quantised models: compute in f32, with the same rounding, without products of integers");
}

std::string LoadOptions::arguments() const {
  std::string text;
  if (weights) text += std::string("--weights ") + choice_name(*weights);
  if (dtype) text += fmt::format("{}--dtype {}", text.empty() ? "" : " ", name_of(*dtype));
  if (simulated) text += text.empty() ? "--simulated" : " --simulated";
  return text;
}

void add_inspect_options(CLI::App& command, InspectOptions& o, const std::string& sample,
                         const LoadChoices& choices) {
  add_load_options(command, o.checkpoint, o.load, choices);
  command.add_option("--data", o.data, "Other data (default: the run's)");
  add_number(command, "--samples,--sequences", o.samples, "Number of " + sample + ", spread over the split",
             Range{1, 1e9});
  add_number(command, "--decompose", o.decomposed,
             "The first of these samples, this many, are measured by eigenvalues and singular values too",
             Range{1, 1e9});
  command.add_flag("--json", o.json, "Print JSON instead of tables");
}

void add_eval_options(CLI::App& command, EvalOptions& o, const std::string& batch,
                      const LoadChoices& choices) {
  add_load_options(command, o.checkpoint, o.load, choices);
  if (!batch.empty()) add_number(command, "--batch-size", o.batch_size, batch, any_batch);
  command.add_flag("--quiet", o.quiet, "No progress on stderr");
  command.add_flag("--json", o.json, "Print JSON instead of tables");
}

namespace {

std::vector<std::string> without_repetitions(const std::vector<std::string>& folders) {
  std::vector<std::string> distinct;
  std::set<fs::path> seen;
  for (const std::string& folder : folders)
    if (seen.insert(fs::weakly_canonical(folder)).second)
      distinct.push_back(folder);
    else
      note("{} is named twice and counts once\n", folder);
  return distinct;
}

}  // namespace

void prepare_output(const std::string& file) {
  check_output(file);
  remove_leftovers(fs::absolute(file).parent_path().string());
  const AtomicFile can_be_written(file);
}

void add_compare_command(CLI::App& app, CompareRuns compare) {
  struct Options {
    std::vector<std::string> runs;
    std::string report;
    bool markdown = false, json = false;
  };
  const auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("compare", "Compare runs: a table with mean and spread over seeds");
  command->add_option("runs", o->runs, "Folders of runs")->required();
  command->add_option("--report", o->report, "Write an HTML comparison to this file");
  CLI::Option* markdown = command->add_flag("--markdown", o->markdown, "Print a Markdown table");
  command->add_flag("--json", o->json, "Print JSON")->excludes(markdown);
  command->callback([=] {
    if (!o->report.empty()) prepare_output(o->report);
    print(compare(without_repetitions(o->runs), o->report), o->markdown, o->json);
  });
}

void add_report_command(CLI::App& app, std::function<void(const std::string&)> write_report) {
  const auto folder = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("report", "Write a run's report.html anew");
  command->add_option("run", *folder, "Folder of a run")->required();
  command->callback([=] {
    if (fs::is_directory(*folder)) check_is_run(*folder);
    write_report(*folder);
  });
}

}  // namespace pursuit::apps
