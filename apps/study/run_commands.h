#pragma once
#include <functional>
#include <string>
#include <vector>

#include "apps/study/comparison.h"
#include "apps/study/loaded_model.h"

namespace CLI {
class App;
}
namespace pursuit::apps {
struct EvalOptions;
}

namespace pursuit::apps {

// Adds --weights raw|ema, its short forms --ema and --no-ema, and --no-verify.
void add_weights_option(CLI::App& command, LoadOptions& options);
// Adds --checkpoint and the options of LoadOptions.
void add_load_options(CLI::App& command, std::string& checkpoint, LoadOptions& options,
                      const LoadChoices& choices = {});

// Adds the options of every `eval`; `batch` is the help text of --batch-size, empty where samples are
// evaluated one by one.
void add_eval_options(CLI::App& command, EvalOptions& options, const std::string& batch,
                      const LoadChoices& choices = {});

// Call before the work whose result is written to a file outside a run. Throws Error if the file would replace
// one of a run (check_output) or cannot be written. Removes temporary files that killed writers left beside it.
void prepare_output(const std::string& file);

// See compare_runs in comparison_page.h.
using CompareRuns = Comparison (*)(const std::vector<std::string>& folders, const std::string& page);
// Adds `compare RUN...`, which prints a table, Markdown or JSON; --report FILE writes the page. A repeated
// folder counts once.
void add_compare_command(CLI::App& app, CompareRuns compare);

// Adds `report RUN`, which rewrites a run's report.html.
void add_report_command(CLI::App& app, std::function<void(const std::string&)> write_report);

}  // namespace pursuit::apps
