#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "apps/bench/ddp.h"
#include "apps/bench/loader.h"
#include "apps/bench/measure.h"
#include "apps/bench/traffic.h"
#include "apps/bench/workload.h"
#include "apps/command/command_line.h"
#include "apps/command/options.h"
#include "apps/run/json.h"
#include "apps/run/run_folder.h"
#include "apps/terminal/print.h"
#include "apps/terminal/table.h"
#include "apps/training/ranks.h"
#include "cuda/runtime.h"
#include "engine/base/error.h"
#include "engine/core/memory.h"
#include "engine/cpu/parallel.h"
#include "engine/cpu/rows.h"
#include "engine/distributed/communicator.h"
#include "engine/program/describe.h"
#include "engine/program/program.h"

namespace pursuit::bench {

namespace {

struct Options {
  std::vector<std::string> names;
  std::string device = "cpu", start;
  DType dtype = DType::f32;
  int threads = 0, steps = 0;
  int64_t batch = 0;
  double seconds = 1;
  bool json = false, traffic = false;
};

std::vector<Workload> all_workloads() {
  std::vector<Workload> all = model_workloads();
  for (Workload& w : operator_workloads()) all.push_back(std::move(w));
  return all;
}

void list() {
  apps::Table table{{"name", "default batch", "what a step is"}, {}};
  for (const Workload& w : all_workloads())
    table.rows.push_back({w.name, fmt::format("{} {}", w.batch, w.unit), w.what});
  apps::print("{}\nGroups: models, operators, all\n", apps::Lines{apps::to_text(table)});
}

std::vector<Workload> chosen(const std::vector<std::string>& names) {
  std::vector<Workload> out;
  for (const std::string& name : names) {
    const size_t before = out.size();
    for (const Workload& w : all_workloads())
      if (name == "all" || name == w.name || (name == "models" && w.group == Workload::Group::model) ||
          (name == "operators" && w.group == Workload::Group::op))
        out.push_back(w);
    if (out.size() == before) fail("bench", "unknown workload '" + name + "'; `bench list` shows the names");
  }
  return out;
}

std::string mib(double bytes) { return fmt::format("{:.1f}", bytes / (1 << 20)); }

int64_t batch_of(const Workload& w, const Options& options) {
  return options.batch ? options.batch : w.batch;
}
DType dtype_of(const Workload& w, const Options& options) {
  return w.takes_bf16 ? options.dtype : DType::f32;
}

using distributed::Reduction;

nlohmann::ordered_json run(const Workload& w, const Options& options, distributed::Communicator& ranks) {
  const auto sum = [&](double value) { return apps::reduced(ranks, value, Reduction::sum); };
  const int64_t batch = batch_of(w, options);
  const DType dtype = dtype_of(w, options);
  const int steps = options.steps ? options.steps : w.group == Workload::Group::model ? 10 : 20;

  const Device device = device_from_name(options.device);
  empty_cache(device);
  reset_peak_memory(device);
  reset_peak_rss();
  const Step step = w.make(batch * ranks.size(), dtype, device);
  if (!step.model && (ranks.size() > 1 || !options.start.empty()))
    fail("bench", w.name + " is no training step; --start and several ranks are for a model");
  if (!options.start.empty() && ranks.rank() == 0) step.model->save(options.start);
  if (ranks.size() > 1) step.model->join(ranks);
  std::vector<double> losses;
  if (!options.start.empty()) losses = step.model->losses(10);

  Protocol protocol{steps, options.seconds};
  if (device.is_cuda()) protocol.wait = [device] { synchronize(device); };
  protocol.of_rank_0 = [&](double value) { return sum(ranks.rank() == 0 ? value : 0); };
  const Measurement m = measure(step.run, protocol);
  nlohmann::ordered_json line = {
      {"workload", w.name},
      {"engine", "pursuit"},
      {"version", PURSUIT_VERSION},
      {"isa", rows<float>().isa},
      {"device", device.is_cuda() ? cuda::describe(device.index) : "cpu"},
      {"ranks", ranks.size()},
      {"threads", num_threads()},
      {"dtype", name_of(dtype)},
      {"batch", batch},
      {"unit", w.unit},
      {"steps", m.steps},
      {"median_ms", m.median_ms},
      {"min_ms", m.min_ms},
      {"max_ms", m.max_ms},
      {"cpu_ms", sum(m.cpu_ms)},
      {"items_per_s", double(batch * ranks.size()) / m.median_ms * 1e3},
      {"waited", apps::reduced(ranks, m.waited, Reduction::max)},
      {"pool_peak_bytes", int64_t(sum(double(memory_stats(device).allocated_peak)))},
      {"rss_peak_bytes", int64_t(sum(double(peak_rss())))}};
  if (!losses.empty()) line["losses"] = losses;
  return line;
}

// Rank 0 reports.
void report(const std::vector<Workload>& workloads, const Options& options,
            distributed::Communicator& ranks) {
  apps::Table table{{"workload", "dtype", "batch", "steps", "median ms", "min", "max", "items/s", "pool MiB",
                     "RSS MiB", "waited %"},
                    {}};
  for (const Workload& w : workloads) {
    if (!options.json && ranks.rank() == 0) apps::note("{} ...\n", w.name);
    const nlohmann::ordered_json r = run(w, options, ranks);
    if (ranks.rank() > 0) continue;
    if (options.json) {
      apps::print("{}\n", r.dump());
      std::fflush(stdout);
      continue;
    }
    table.rows.push_back(
        {w.name, r["dtype"].get<std::string>(), fmt::format("{}", r["batch"].get<int64_t>()),
         fmt::format("{}", r["steps"].get<int>()), fmt::format("{:.3f}", r["median_ms"].get<double>()),
         fmt::format("{:.3f}", r["min_ms"].get<double>()), fmt::format("{:.3f}", r["max_ms"].get<double>()),
         fmt::format("{:.1f}", r["items_per_s"].get<double>()), mib(r["pool_peak_bytes"]),
         mib(r["rss_peak_bytes"]), fmt::format("{:.1f}", 100 * r["waited"].get<double>())});
  }
  if (!options.json && ranks.rank() == 0)
    apps::print("{}\nPursuit {} on {}{}\n", apps::Lines{apps::to_text(table)}, PURSUIT_VERSION,
                describe(device_from_name(options.device)),
                ranks.size() > 1 ? fmt::format(", {} ranks", ranks.size()) : std::string());
}

int run_all(const Options& options) {
  const std::vector<Workload> workloads = chosen(options.names);
  if (!options.start.empty()) {
    if (workloads.size() > 1)
      fail("bench", fmt::format("--start is a file of one workload, got {}", workloads.size()));
    apps::check_output(options.start);
  }
  if (options.threads) set_num_threads(options.threads);
  if (options.traffic) {
    if (!device_from_name(options.device).is_cuda())
      fail("bench",
           "--traffic is of a GPU's kernels, got --device " + options.device + "; give --device cuda");
    for (const Workload& w : workloads)
      print_traffic(w, batch_of(w, options), dtype_of(w, options), options.json);
    return 0;
  }
  const distributed::Job job = distributed::job_from_environment();
  const auto ranks = distributed::connect(job, distributed::device_of_rank(options.device, job));
  try {
    report(workloads, options, *ranks);
  } catch (const std::exception& e) {
    ranks->abort(e.what());
    throw;
  }
  ranks->leave();
  return 0;
}

int run_command(const std::vector<std::string>& args) {
  CLI::App app{
      "Times training steps and operators on synthetic data. Every step of a model is forward, loss, "
      "backward and AdamW; several ranks (under mpirun, torchrun, ...) train a model together, each with a "
      "batch. tools/bench/compare sets the figures against PyTorch's."};
  app.name("bench");
  int code = 0;
  Options options;
  app.add_option("names", options.names, "workloads or groups; 'list' shows them");
  app.add_option("--device", options.device, "auto, cpu, cuda, cuda:1")->capture_default_str();
  apps::add_number(app, "--threads", options.threads, "CPU threads (0: all)", apps::any_threads);
  apps::add_number(app, "--steps", options.steps,
                   "timed steps, at least (0: 10 for models, 20 for operators)", apps::any_count);
  apps::add_number(app, "--seconds", options.seconds, "timed seconds, at least", apps::Range{0, 1e6});
  apps::add_number(app, "--batch", options.batch, "batch size (0: the workload's)", apps::any_batch);
  apps::add_choice<DType>(app, "--dtype", options.dtype, "where the workload has it; master weights are f32")
      ->default_str(choice_name(options.dtype));
  CLI::Option* const start = app.add_option(
      "--start", options.start,
      "write weights and batch of a model to this file, for torch_twin.py; --json then gives the losses of "
      "ten steps without dropout");
  app.add_flag(
         "--traffic", options.traffic,
         "what every kernel of a step moves, in place of times; counted by the simulated GPU of a build "
         "with -DPURSUIT_TRAFFIC=ON")
      ->excludes(start);
  app.add_flag("--json", options.json, "one JSON object a line");
  add_ddp_command(app);
  add_loader_command(app);
  app.callback([&] {
    if (!app.get_subcommands().empty()) return;
    if (options.names.empty()) throw CLI::RequiredError("a workload");
    if (options.names == std::vector<std::string>{"list"})
      list();
    else
      code = run_all(options);
  });
  const int parsed = apps::parse(app, args);
  return parsed ? parsed : code;
}

}  // namespace

}  // namespace pursuit::bench

int main(int argc, char** argv) { return pursuit::run_main(argc, argv, pursuit::bench::run_command); }
