#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "apps/bench/ddp.h"
#include "apps/bench/limits.h"
#include "apps/bench/loader.h"
#include "apps/bench/measure.h"
#include "apps/bench/peak.h"
#include "apps/bench/text.h"
#include "apps/bench/traffic.h"
#include "apps/bench/workload.h"
#include "apps/command/command_line.h"
#include "apps/command/options.h"
#include "apps/run/json.h"
#include "apps/run/run_folder.h"
#include "apps/terminal/print.h"
#include "apps/terminal/table.h"
#include "apps/training/fields.h"
#include "apps/training/ranks.h"
#include "cuda/runtime.h"
#include "engine/base/error.h"
#include "engine/core/memory.h"
#include "engine/cpu/int8_kernels.h"
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
  std::vector<int> threads;
  int steps = 0;
  int64_t batch = 0;
  double seconds = 1;
  bool json = false, traffic = false;
};

std::vector<Workload> all_workloads() {
  std::vector<Workload> all = model_workloads();
  for (Workload& w : inference_workloads()) all.push_back(std::move(w));
  for (Workload& w : operator_workloads()) all.push_back(std::move(w));
  return all;
}

void list() {
  apps::Table table{{"name", "default batch", "what a step is"}, {}};
  for (const Workload& w : all_workloads())
    table.rows.push_back({w.name, fmt::format("{} {}", w.batch, w.unit), w.what});
  apps::print("{}\nGroups: models, inference, operators, all\n", apps::Lines{apps::to_text(table)});
}

std::vector<Workload> chosen(const std::vector<std::string>& names) {
  std::vector<Workload> out;
  for (const std::string& name : names) {
    const size_t before = out.size();
    for (const Workload& w : all_workloads())
      if (name == "all" || name == w.name || (name == "models" && w.group == Workload::Group::model) ||
          (name == "inference" && w.group == Workload::Group::inference) ||
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
using Json = nlohmann::ordered_json;

Json run(const Workload& w, const Options& options, distributed::Communicator& ranks) {
  const auto sum = [&](double value) { return apps::reduced(ranks, value, Reduction::sum); };
  const int64_t batch = batch_of(w, options);
  const DType dtype = dtype_of(w, options);
  const int steps = options.steps ? options.steps : w.group == Workload::Group::op ? 20 : 10;

  const Device device = device_from_name(options.device);
  const bool on_cpu = !device.is_cuda();
  const Peak peak_before = on_cpu ? measure_peak() : Peak();
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
  if (!on_cpu) protocol.wait = [device] { synchronize(device); };
  protocol.of_rank_0 = [&](double value) { return sum(ranks.rank() == 0 ? value : 0); };
  const Measurement m = measure(step.run, protocol);
  Json line = {{"workload", w.name},
               {"engine", "pursuit"},
               {"version", PURSUIT_VERSION},
               {"isa", rows<float>().isa},
               {"isa_bf16", bf16_instructions()},
               {"isa_int8", int8_kernels().isa},
               {"device", on_cpu ? "cpu" : cuda::describe(device.index)},
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
  if (on_cpu) add_limits(line, w, step, larger(peak_before, measure_peak()), dtype, m.median_ms);
  return line;
}

// Whether the line's times cannot be relied on: another program ran, or the peak was measured too low.
bool is_doubtful(const Json& line) { return line["waited"] > busy || line.value("of_peak", 0.0) > 1; }

// Rank 0 reports. With several numbers of threads a workload is compared with the first of them.
void report(const std::vector<Workload>& workloads, const Options& options,
            distributed::Communicator& ranks) {
  const bool several = options.threads.size() > 1, on_cpu = !device_from_name(options.device).is_cuda();
  apps::Table table{{"workload", "dtype", "batch", "threads", "steps", "median ms", "min", "max", "items/s",
                     "pool MiB", "RSS MiB", "waited %"},
                    {}};
  if (several)
    for (const char* head : {"speedup", "efficiency %"}) table.columns.push_back(head);
  apps::Table limits{limit_columns(), {}};
  bool doubtful = false;
  const int all_threads = num_threads();
  int first_threads = 0;
  std::map<std::string, double> first;  // items a second of the first number of threads
  for (const int threads : options.threads.empty() ? std::vector<int>{0} : options.threads) {
    set_num_threads(threads ? threads : all_threads);
    if (!first_threads) first_threads = num_threads();
    for (const Workload& w : workloads) {
      if (!options.json && ranks.rank() == 0) apps::note("{} ...\n", w.name);
      Json r = run(w, options, ranks);
      if (ranks.rank() > 0) continue;
      const double rate = r["items_per_s"].get<double>(),
                   before = first.try_emplace(w.name, rate).first->second;
      const double speedup = rate / before, more = double(num_threads()) / first_threads;
      if (several) r["speedup"] = speedup;
      if (options.json) {
        apps::print("{}\n", r.dump());
        std::fflush(stdout);
        continue;
      }
      const auto number = [&](const char* key, int digits) {
        return fmt::format("{:.{}f}", r[key].get<double>(), digits);
      };
      if (is_doubtful(r)) {
        doubtful = true;
        r["workload"] = w.name + " *";
      }
      table.rows.push_back({r["workload"].get<std::string>(), r["dtype"].get<std::string>(),
                            fmt::format("{}", r["batch"].get<int64_t>()), fmt::format("{}", num_threads()),
                            fmt::format("{}", r["steps"].get<int>()), number("median_ms", 3),
                            number("min_ms", 3), number("max_ms", 3), number("items_per_s", 1),
                            mib(r["pool_peak_bytes"]), mib(r["rss_peak_bytes"]),
                            fmt::format("{:.1f}", 100 * r["waited"].get<double>())});
      if (several)
        for (const double value : {speedup, 100 * speedup / more})
          table.rows.back().push_back(fmt::format("{:.2f}", value));
      if (on_cpu) limits.rows.push_back(limit_row(r));
    }
  }
  if (options.json || ranks.rank() > 0) return;
  apps::print("{}\nPursuit {} on {}{}\n", apps::Lines{apps::to_text(table)}, PURSUIT_VERSION,
              describe(device_from_name(options.device)),
              ranks.size() > 1 ? fmt::format(", {} ranks", ranks.size()) : std::string());
  if (on_cpu)
    apps::print("\n{}Products: f32 by {}, bf16 by {}, int8 by {}\n", apps::Lines{apps::to_text(limits)},
                rows<float>().isa, bf16_instructions(), int8_kernels().isa);
  if (doubtful)
    apps::print(
        "* waited more than {:.0f} % of the time, or is above the peak: repeat it on a quiet machine\n",
        100 * busy);
}

int run_all(const Options& options) {
  const std::vector<Workload> workloads = chosen(options.names);
  if (!options.start.empty()) {
    if (workloads.size() > 1)
      fail("bench", fmt::format("--start is a file of one workload, got {}", workloads.size()));
    apps::check_output(options.start);
  }
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
      "Times training steps, forward passes and operators on synthetic data, and on the CPU their share of "
      "the measured peak. Every step of a model is forward, loss, backward and AdamW; several ranks (under "
      "mpirun, torchrun, ...) train a model together, each with a batch. tools/bench/compare sets the "
      "figures against PyTorch's."};
  app.name("bench");
  int code = 0;
  Options options;
  app.add_option("names", options.names, "Workloads or groups; `bench list` shows them");
  app.add_option("--device", options.device, apps::device_help)->capture_default_str();
  app.add_option("--threads", options.threads,
                 "CPU threads (0: all); several numbers, such as 1,2,4, are timed in turn and compared with "
                 "the first")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(apps::within(apps::any_threads));
  apps::add_number(app, "--steps", options.steps,
                   "Timed steps, at least (0: 10 for models, 20 for operators)", apps::any_count);
  apps::add_number(app, "--seconds", options.seconds, "Timed seconds, at least", apps::Range{0, 1e6});
  apps::add_number(app, "--batch", options.batch, "Batch size (0: the workload's)", apps::Range{0, 1 << 26});
  apps::add_choice<DType>(app, "--dtype", options.dtype,
                          "Data type of the computations; a workload without bf16 runs in f32")
      ->default_str(choice_name(options.dtype));
  CLI::Option* const start = app.add_option(
      "--start", options.start,
      "Write weights and batch of a model to this file, for torch_twin.py; --json then gives the losses of "
      "ten steps without dropout");
  app.add_flag("--traffic", options.traffic,
               "Show the bytes that every kernel of a step moves in place of times, as counted by the "
               "simulated GPU of a build with -DPURSUIT_TRAFFIC=ON")
      ->excludes(start);
  app.add_flag("--json", options.json, "Print JSON, one object a line");
  add_ddp_command(app);
  add_loader_command(app);
  add_text_command(app);
  app.require_subcommand(0, 1);
  app.parse_complete_callback([&] {
    if (app.get_subcommands().empty()) return;
    for (const CLI::Option* option : app.get_options())
      if (option->count() > 0)
        throw CLI::ValidationError(
            option->get_name(), fmt::format("'{}' before {} has no effect", fmt::join(option->results(), " "),
                                            app.get_subcommands()[0]->get_name()));
  });
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
