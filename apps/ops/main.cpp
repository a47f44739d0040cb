#include <CLI/CLI.hpp>

#include "apps/command/command_line.h"
#include "engine/driver/program.h"
#include "engine/program/program.h"

// ops list | check | grad | canaries | bench: tests or times every registered operator with its own samples.
using namespace pursuit;

namespace {

int run_command(const std::vector<std::string>& args) {
  driver::Options o;
  o.at_least = PURSUIT_OPERATOR_COUNT;
  int code = 0;
  CLI::App app{"Tries every operator on its own samples"};
  app.name("ops");
  app.add_option("mode", o.mode,
                 "list; check: values and gradients in every dtype and memory layout against f64, and those "
                 "against central differences of some elements; grad: of up to 400 elements an input, on the "
                 "CPU; canaries: wrong operators must be caught; bench")
      ->required()
      ->check(CLI::IsMember({"list", "check", "grad", "canaries", "bench"}));
  app.add_option("name", o.names, "operators; default: all");
  app.add_option("--device", o.device, "cpu, cuda, cuda:1 ... or auto")->capture_default_str();
  app.add_option("--dtype", o.dtype, "f32, bf16 or f64; default: f32 and bf16 (bench: f32)");
  app.add_flag("--contiguous", o.contiguous, "check: contiguous inputs only, and no canaries");
  app.add_flag("--json", o.json, "one JSON object a line");
  app.callback([&] { code = driver::run(o); });
  const int parsed = apps::parse(app, args);
  return parsed ? parsed : code;
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, run_command); }
