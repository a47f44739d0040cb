#pragma once
#include <functional>
#include <string>
#include <vector>

#include "apps/study/comparison.h"
#include "apps/study/loaded_model.h"

namespace CLI {
class App;
}

// What the subcommands on finished runs share.
namespace pursuit::apps {

// --weights raw|ema, --ema and --no-ema for short, and --no-verify.
void add_weights_option(CLI::App& command, LoadOptions& options);
// --checkpoint, and how it is loaded.
void add_load_options(CLI::App& command, std::string& checkpoint, LoadOptions& options);

// Before a file is written that no run keeps: throws Error rather than have it take the place of one that a
// run does (check_output), and removes the temporary files of writers that were killed in its folder.
void prepare_output(const std::string& file);

// What an app makes of the folders of its runs; also a page, where a file for it is named. Throws Error that
// names the folder and what it lacks if one is no run.
using CompareRuns = Comparison (*)(const std::vector<std::string>& folders, const std::string& page);
// `compare RUN...` prints it: a table, Markdown or JSON; --report names the page. A folder that is named
// twice counts once.
void add_compare_command(CLI::App& app, CompareRuns compare);

// `report RUN` writes a run's report.html anew.
void add_report_command(CLI::App& app, std::function<void(const std::string&)> write_report);

}  // namespace pursuit::apps
