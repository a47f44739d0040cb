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

// What the subcommands on finished runs share.
namespace pursuit::apps {

// --weights raw|ema, --ema and --no-ema for short, and --no-verify.
void add_weights_option(CLI::App& command, LoadOptions& options);
// --checkpoint, and how it is loaded.
void add_load_options(CLI::App& command, std::string& checkpoint, LoadOptions& options);

// Those of every `eval`; `batch` is the help of --batch-size.
void add_eval_options(CLI::App& command, EvalOptions& options, const std::string& batch);

// Before a file is written that no run keeps: throws Error rather than have it take the place of one that a
// run does (check_output), and removes the temporary files of writers that were killed in its folder.
void prepare_output(const std::string& file);

// See compare_runs in comparison_page.h.
using CompareRuns = Comparison (*)(const std::vector<std::string>& folders, const std::string& page);
// `compare RUN...` prints it: a table, Markdown or JSON; --report names the page. A folder that is named
// twice counts once.
void add_compare_command(CLI::App& app, CompareRuns compare);

// `report RUN` writes a run's report.html anew.
void add_report_command(CLI::App& app, std::function<void(const std::string&)> write_report);

}  // namespace pursuit::apps
