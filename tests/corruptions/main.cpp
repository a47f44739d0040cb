#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "apps/command/command_line.h"
#include "apps/command/options.h"
#include "data/corruptions.h"
#include "engine/program/program.h"
#include "tests/corruptions/statistics.h"
#include "tests/differences.h"

// corruptions draw DIR | check: the pictures and the comparison of tests/corruptions/statistics.h.
using namespace pursuit;
using namespace pursuit::corruptions;

namespace {

int draw(const std::string& folder) {
  std::filesystem::create_directories(folder);
  int number = 0;
  for (const data::Image& picture : pictures())
    data::write_png(fmt::format("{}/scene-{}.png", folder, number++), picture);
  return 0;
}

int check(const std::vector<std::string>& names, int seeds, const std::string& folder) {
  const std::vector<data::Image> frost =
      folder.empty() ? std::vector<data::Image>() : data::read_frost(folder);
  double worst = 0;
  int skipped = 0;
  for (const std::string& name : names.empty() ? data::corruption_names() : names) {
    if (name == "frost" && frost.empty()) {
      ++skipped;
      continue;
    }
    for (int severity = 1; severity <= 5; ++severity) {
      const Statistics ours = measure(name, severity, seeds > 0 ? seeds : seeds_of(name), frost),
                       want = original(name, severity);
      const double error = relative_error(ours, want);
      worst = larger(worst, error);
      fmt::print("{:<18} {}  {:5.2f} %  {}\n", name, severity, 100 * error,
                 error <= kLargestError ? "ok" : "FAILED");
      if (!(error <= kLargestError))
        fmt::print("    ours     {}\n    original {}\n", describe(ours), describe(want));
      std::fflush(stdout);
    }
  }
  fmt::print("worst {:.2f} % of {:.0f} %{}\n", 100 * worst, 100 * kLargestError,
             skipped ? "; frost skipped: name the folder of overlays with --frost" : "");
  return worst <= kLargestError ? 0 : 1;
}

int run(const std::vector<std::string>& args) {
  CLI::App app{"Holds the corruptions to statistics of the program that made ImageNet-C."};
  app.name("corruptions");
  app.require_subcommand(1);
  int code = 0, seeds = 0;
  std::string folder, frost;
  std::vector<std::string> names;
  CLI::App* draw_command = app.add_subcommand("draw", "Write the pictures that the statistics are of");
  draw_command->add_option("folder", folder, "Folder for the pictures")->required();
  draw_command->callback([&] { code = draw(folder); });
  CLI::App* check_command = app.add_subcommand("check", "Compare all severities");
  check_command->add_option("names", names, "Corruptions (default: all)");
  check_command->add_option("--seeds", seeds, "Seeds a picture (default: as the original's)")
      ->check(apps::within(apps::Range{1, 1e6}));
  check_command->add_option("--frost", frost, "Folder with the overlays frost1 to frost5");
  check_command->callback([&] { code = check(names, seeds, frost); });
  const int parsed = apps::parse(app, args);
  return parsed ? parsed : code;
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, run); }
