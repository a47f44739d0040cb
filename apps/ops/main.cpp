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
  CLI::App app{"Tests or times every operator with its own samples."};
  app.name("ops");
  app.add_option(
         "mode", o.mode,
         "list: print the operators; check: compare values and gradients in every dtype and memory "
         "layout with f64, and f64's gradients of some elements with central differences; grad: compare "
         "the gradients of up to 400 elements an input with central differences, on the CPU; canaries: "
         "test that wrong operators are caught; bench: time forward and backward")
      ->required()
      ->check(CLI::IsMember({"list", "check", "grad", "canaries", "bench"}));
  app.add_option("name", o.names, "Operators (default: all)");
  app.add_option("--device", o.device, "Device: auto, cpu, cuda, cuda:1 ...")->capture_default_str();
  app.add_option("--dtype", o.dtype, "Data type: f32, bf16 or f64 (default: f32 and bf16; bench: f32)");
  app.add_flag("--contiguous", o.contiguous, "check: only contiguous inputs, and no canaries");
  app.add_flag("--json", o.json, "Print JSON, one object a line");
  app.callback([&] { code = driver::run(o); });
  const int parsed = apps::parse(app, args);
  return parsed ? parsed : code;
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, run_command); }
