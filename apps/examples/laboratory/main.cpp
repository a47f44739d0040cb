#include <CLI/CLI.hpp>

#include "apps/command/command_line.h"
#include "apps/examples/laboratory/programs.h"
#include "engine/program/program.h"

// laboratory check | count | bench: softmax and matrix product in four versions each; see README.md.
namespace {

int run(const std::vector<std::string>& args) {
  using namespace pursuit;
  int code = 0, rounds = 5;
  std::vector<std::string> names;
  std::string device = "cpu";
  CLI::App app{
      "Tests and times softmax and the matrix product, each in four versions from the naive one on."};
  app.name("laboratory");
  app.require_subcommand(1);
  CLI::App& check = *app.add_subcommand("check", "Compare every version with the engine's operator");
  check.add_option("name", names, "Versions: softmax_1 ..., matmul_1 ..., cpu_matmul_1 ... (default: all)");
  check.callback([&] { code = laboratory::check(names); });
  CLI::App& count =
      *app.add_subcommand("count", "Count what each version loads, stores and multiplies, as tables");
  count.callback([&] { code = laboratory::count(); });
  CLI::App& bench = *app.add_subcommand("bench", "Time every version beside the engine's operator");
  bench.add_option("--device", device, "Device: cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  bench.add_option("--rounds", rounds, "CPU: number of timed runs of each version")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  bench.callback([&] { code = device == "cpu" ? laboratory::bench_cpu(rounds) : laboratory::bench_gpu(); });
  const int parsed = apps::parse(app, args);
  return parsed ? parsed : code;
}

}  // namespace

int main(int argc, char** argv) { return pursuit::run_main(argc, argv, run); }
