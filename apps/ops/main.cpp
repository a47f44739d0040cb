#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/command/command_line.h"
#include "engine/driver/driver.h"
#include "engine/driver/report.h"
#include "engine/program/describe.h"
#include "engine/program/program.h"

// ops list | check | grad | canaries | bench: every operator of the inventory over its own samples.
using namespace pursuit;
using driver::Counts;
using driver::Report;

namespace {

struct Options {
  std::string mode;
  std::vector<std::string> names;
  std::string device = "cpu", dtype;
  bool json = false, contiguous = false;
};

// The operators asked for (all if none), canaries apart; sorted, each name once.
std::vector<const OperatorInfo*> chosen(const Options& o, Counts& counts) {
  std::vector<const OperatorInfo*> ops;
  std::set<std::string> wanted(o.names.begin(), o.names.end()), seen;
  for (const OperatorInfo& op : inventory()) {
    if (driver::is_canary(op)) continue;
    if (!seen.insert(op.name).second) {
      std::printf("two operators are called '%s'\n", op.name.c_str());
      counts.add(false);
    }
    if (o.names.empty() || wanted.erase(op.name)) ops.push_back(&op);
  }
  for (const std::string& name : wanted) fail("ops", "no operator is called '" + name + "'; see: ops list");
  std::sort(ops.begin(), ops.end(), [](auto* a, auto* b) { return a->name < b->name; });
  // The build counted the operators in the sources; fewer here means that a registration was lost.
  if (o.names.empty() && ops.size() < PURSUIT_OPERATOR_COUNT) {
    std::printf("the inventory holds %zu operators, the sources %d\n", ops.size(), PURSUIT_OPERATOR_COUNT);
    counts.add(false);
  }
  return ops;
}

void print_timing(const driver::Timing& t, bool json) {
  const double rate = t.forward > 0 ? double(t.bytes) / t.forward / 1e9 : 0;
  if (json) {
    nlohmann::json line = {{"mode", "bench"},        {"op", t.name},     {"bytes", t.bytes},
                           {"forward_s", t.forward}, {"both_s", t.both}, {"forward_gb_s", rate}};
    std::printf("%s\n", line.dump().c_str());
  } else {
    std::printf("%-26s %10lld bytes  forward %9.2f us %7.2f GB/s  with backward %9.2f us\n", t.name.c_str(),
                static_cast<long long>(t.bytes), t.forward * 1e6, rate, t.both * 1e6);
  }
}

int run(const Options& o) {
  const Device device = device_from_name(o.device);
  std::vector<DType> dtypes = {DType::f32, DType::bf16};
  if (!o.dtype.empty()) dtypes = {dtype_from_name(o.dtype)};
  if (!is_floating(dtypes[0])) fail("ops", "--dtype is " + o.dtype + ", need f32, bf16 or f64");

  if ((o.mode == "grad" || o.mode == "canaries") && (device.is_cuda() || !o.dtype.empty()))
    fail("ops", o.mode + " runs on the CPU in dtypes of its own; leave out --device and --dtype. " +
                    "`ops check --device cuda` holds the GPU's gradients against the CPU's in f64");

  Counts counts;
  const std::vector<const OperatorInfo*> ops = chosen(o, counts);
  if (o.mode == "list") {
    for (const OperatorInfo* op : ops)
      std::printf("%-26s %zu samples\n", op->name.c_str(), op->cases().size());
    return counts.failed ? 1 : 0;
  }
  std::fprintf(stderr, "%s\n", describe(device).c_str());
  if (o.mode == "bench") {
    for (const OperatorInfo* op : ops) print_timing(driver::bench(*op, device, dtypes[0]), o.json);
    return counts.failed ? 1 : 0;
  }

  set_memory_debug(true);
  if (o.mode != "canaries")
    for (const OperatorInfo* op : ops) {
      const Report r =
          o.mode == "grad" ? driver::check_gradients(*op) : driver::check(*op, device, dtypes, !o.contiguous);
      counts.add(r.ok());
      driver::print(r, o.mode.c_str(), o.json);
    }
  // Guards and plain loops of the canaries live in host memory.
  if (o.mode == "canaries" || (o.mode == "check" && o.names.empty() && !o.contiguous))
    driver::run_canaries(o.json, counts);
  return counts.close();
}

int run_command(const std::vector<std::string>& args) {
  Options o;
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
  app.callback([&] { code = run(o); });
  const int parsed = apps::parse(app, args);
  return parsed ? parsed : code;
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, run_command); }
