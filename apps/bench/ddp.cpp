#include "apps/bench/ddp.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>

#include "apps/bench/measured_times.h"
#include "apps/bench/published.h"
#include "apps/bench/timeline.h"
#include "apps/command/choice.h"
#include "apps/command/options.h"
#include "apps/terminal/print.h"
#include "apps/terminal/table.h"
#include "apps/training/fields.h"
#include "cuda/runtime.h"
#include "engine/base/error.h"
#include "engine/program/describe.h"

namespace pursuit::bench {

namespace {

constexpr double bar_over_nodes = 7;  // largest allowed exposed communication over nodes, percent of a step

struct Options {
  std::vector<std::string> names = {"all"};
  Network network;
  std::vector<int> slices = {1, 2, 3, 4};
  std::string times, measure, device = "auto";
  DType wire = DType::f32, dtype = DType::bf16;
  double contention = 12;  // percent
};

// A setting's least exposed communication, over the numbers of slices, and how it was simulated.
struct Outcome {
  std::string setting, times, embedding;
  double exposed = 0, bar = 0;
  int slices = 0;
};

std::string number(double x, int digits) { return fmt::format("{:.{}f}", x, digits); }

// Exchange of a tied embedding's gradient: whole, or only the rows of words in the batch.
struct Route {
  std::string name;
  int64_t rows = 0;
};

std::vector<Route> routes(const Published& p) {
  if (p.tied.empty()) return {{"-"}};
  return {{"whole"}, {"rows", p.lookups}, {"words", p.words}};
}

Outcome simulate(const Published& p, const std::string& origin, const StepTimes& step, const Route& route,
                 const Options& o, apps::Table& table) {
  Outcome best{p.workload.name, origin, route.name, 100, o.network.nodes > 1 ? bar_over_nodes : p.bar, 0};
  for (int slices : o.slices) {
    const Exposure e = expose(step,
                              {.slices = slices,
                               .bytes = int(size_of(o.wire)),
                               .contention = o.contention / 100,
                               .tied = route.rows ? p.tied : "",
                               .rows = route.rows,
                               .width = p.width},
                              o.network);
    const double exposed = 100 * e.exposed_ms / (step.total() + e.exposed_ms);
    if (exposed < best.exposed) best.exposed = exposed, best.slices = slices;
    const double items = double(p.workload.batch) * o.network.ranks / (step.total() + e.exposed_ms) * 1e3;
    table.rows.push_back({p.workload.name, origin, route.name, fmt::format("{}", slices),
                          number(e.bytes / 1e6, 1), number(step.total(), 2), number(e.collectives_ms, 3),
                          number(e.exposed_ms, 3), number(exposed, 2), number(items, 0)});
  }
  return best;
}

void measure_all(const std::vector<Published>& settings, const Options& o) {
  const Device device = device_from_name(o.device);
  MeasuredTimes times{describe(device), {}};
  if (std::filesystem::exists(o.measure)) {
    const MeasuredTimes before = read_times(o.measure);
    if (before.device != times.device)
      fail("ddp", fmt::format("{} has the times of another device ({}), this one is {}; choose another name",
                              o.measure, before.device, times.device));
    times.steps = before.steps;
  }
  for (const Published& p : settings) {
    apps::note("{}, batch {} ...\n", p.workload.name, p.workload.batch);
    times.steps[p.workload.name] = measure_times(p.workload, o.dtype, device);
    write_times(times, o.measure);
  }
}

void simulate_all(const std::vector<Published>& settings, const Options& o) {
  MeasuredTimes measured;
  if (!o.times.empty()) measured = read_times(o.times);
  apps::Table table{{"setting", "times of kernels", "embedding", "slices", "MB a GPU", "step alone ms",
                     "collectives ms", "exposed ms", "exposed %", "items/s"},
                    {}};
  std::vector<Outcome> outcomes;
  for (const Published& p : settings) {
    std::map<std::string, StepTimes> steps;
    if (const auto of_file = measured.steps.find(p.workload.name); of_file != measured.steps.end())
      steps["measured"] = of_file->second;
    else
      for (const auto& [kernels, step] : p.estimates) steps["estimate: " + kernels] = step;
    for (const auto& [origin, step] : steps)
      for (const Route& route : routes(p)) outcomes.push_back(simulate(p, origin, step, route, o, table));
  }
  const Network& n = o.network;
  apps::print(
      "Simulated: {} GPU{} in {} node{}, {:.6g} GB/s and {:.6g} us a GPU{}, gradients in {}, kernels "
      "{:.6g} % slower beside a collective\n{}\n",
      n.ranks, n.ranks > 1 ? "s" : "", n.nodes, n.nodes > 1 ? "s" : "", n.bandwidth, n.latency,
      n.nodes > 1
          ? fmt::format(" ({:.6g} GB/s and {:.6g} us to other nodes)", n.node_bandwidth, n.node_latency)
          : std::string(),
      choice_name(o.wire), o.contention, apps::Lines{apps::to_text(table)});
  for (const Outcome& best : outcomes)
    if (best.bar < 100)
      apps::print("{} ({}{}): {:.2f} % exposed with {} slice{}, bar {:.6g} %: {}\n", best.setting, best.times,
                  best.embedding == "-" ? "" : ", embedding " + best.embedding, best.exposed, best.slices,
                  best.slices > 1 ? "s" : "", best.bar, best.exposed <= best.bar ? "met" : "MISSED");
  if (!measured.device.empty()) apps::print("Measured on {}\n", measured.device);
}

std::vector<std::string> names_of(const std::vector<Published>& settings) {
  std::vector<std::string> names;
  for (const Published& p : settings) names.push_back(p.workload.name);
  return names;
}

void run(const Options& o) {
  const Network& n = o.network;
  if (n.ranks % n.nodes)
    fail("ddp", fmt::format("{} ranks do not divide into {} nodes; give --ranks in all", n.ranks, n.nodes));
  std::vector<Published> settings = published();
  const std::vector<std::string> wanted = apps::chosen("ddp", o.names, names_of(settings));
  std::erase_if(settings, [&](const Published& p) {
    return std::find(wanted.begin(), wanted.end(), p.workload.name) == wanted.end();
  });
  o.measure.empty() ? simulate_all(settings, o) : measure_all(settings, o);
}

}  // namespace

void add_ddp_command(CLI::App& app) {
  const auto o = std::make_shared<Options>();
  CLI::App* ddp =
      app.add_subcommand("ddp",
                         "Simulate data-parallel training steps on GPUs: slices of the flat buffer "
                         "of gradients are all-reduced during the backward pass. The table shows by "
                         "how much a step is longer than on one GPU. Kernel times are measured ones "
                         "(--times), else estimates, which the table marks.");
  Network& n = o->network;
  const apps::Range positive = apps::above(0, 1e9);
  ddp->add_option(
         "names", o->names,
         fmt::format("Published settings: all, or names: {}", fmt::join(names_of(published()), ", ")))
      ->capture_default_str();
  apps::add_number(*ddp, "--ranks", n.ranks, "Number of GPUs", {1, 65536});
  apps::add_number(*ddp, "--nodes", n.nodes, "Number of machines", {1, 65536});
  apps::add_number(*ddp, "--bandwidth", n.bandwidth, "Ring bandwidth of a GPU within its node, GB/s",
                   positive);
  apps::add_number(*ddp, "--latency", n.latency, "Latency of a ring step within a node, microseconds",
                   {0, 1e9});
  apps::add_number(*ddp, "--node-bandwidth", n.node_bandwidth, "Bandwidth of a GPU to other nodes, GB/s",
                   positive);
  apps::add_number(*ddp, "--node-latency", n.node_latency,
                   "Latency of a ring step between nodes, microseconds", {0, 1e9});
  apps::add_number(*ddp, "--slices", o->slices, "Numbers of slices of the flat buffer to try", {1, 1000})
      ->allow_extra_args(false);
  apps::add_choice<DType>(*ddp, "--wire", o->wire, "Data type in which gradients are sent")
      ->default_str(choice_name(o->wire));
  apps::add_number(*ddp, "--contention", o->contention,
                   "Speed that the backward pass loses while a collective runs, percent; NCCL takes about 16 "
                   "of 132 multiprocessors",
                   apps::below(0, 100));
  ddp->add_option("--times", o->times, "File of measured times; missing settings are estimated");
  CLI::Option* const measure =
      ddp->add_option("--measure", o->measure,
                      "Measure the settings' steps on --device and add them to this file")
          ->excludes("--times");
  ddp->add_option("--device", o->device, std::string("--measure: ") + apps::device_help)
      ->capture_default_str();
  apps::add_choice<DType>(*ddp, "--dtype", o->dtype, "--measure: data type of the computations")
      ->default_str(choice_name(o->dtype));
  for (const char* simulated : {"--ranks", "--nodes", "--bandwidth", "--latency", "--node-bandwidth",
                                "--node-latency", "--slices", "--wire", "--contention"})
    measure->excludes(ddp->get_option(simulated));
  apps::refuse_without_effect(*ddp, {{{"--device", "--dtype"}, {"--measure"}},
                                     {{"--node-bandwidth", "--node-latency"}, {"--nodes"}}});
  ddp->callback([o] { run(*o); });
}

}  // namespace pursuit::bench
