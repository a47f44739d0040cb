#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "apps/command/apply.h"
#include "apps/command/checks.h"
#include "apps/route/drawing.h"
#include "apps/route/route.h"
#include "apps/run/files.h"
#include "apps/study/run_commands.h"
#include "apps/terminal/print.h"
#include "apps/terminal/progress.h"
#include "apps/terminal/signals.h"
#include "data/routing/baselines.h"
#include "data/routing/tsplib.h"
#include "engine/base/text.h"

namespace pursuit::route {

namespace {

std::string percent(double fraction) { return fmt::format("{:.2f} %", 100 * fraction); }

apps::Table to_table(const std::vector<Results>& all) {
  apps::Table table{{"instances", "data", "decoding", "length", "gap"}, {}};
  for (const Results& r : all)
    table.rows.push_back(
        {std::to_string(r.count), r.data, r.decoding, fmt::format("{:.4f}", r.length), percent(r.gap)});
  if (all.empty()) return table;
  const Results& r = all[0];
  const auto baseline = [&](const char* name, double length, double gap) {
    table.rows.push_back({std::to_string(r.count), r.data, name,
                          length > 0 ? fmt::format("{:.4f}", length) : "", percent(gap)});
  };
  baseline("nearest neighbour", 0, r.nearest_gap);
  baseline("savings", 0, r.savings_gap);
  const std::string reference = r.reference_is.empty() ? "reference" : "reference: " + r.reference_is;
  baseline(reference.c_str(), r.reference, 0);
  return table;
}

std::vector<apps::Curve> curves() {
  return {{.title = "Loss", .unit = "", .lines = {{.key = "loss", .name = "training", .smooth = true}}},
          apps::percent_curve("Gap", "test_gap", "in training")};
}

// A command works on the CPU alone, as training does.
apps::LoadOptions on_cpu(apps::LoadOptions load) {
  if (load.device == "auto") load.device = "cpu";
  return load;
}

std::vector<Decoded> decode_visibly(const char* label, const Model& model, const Instances& instances,
                                    int64_t batch, const Decoding& how, bool quiet) {
  apps::Progress bar(label, 0, nodes_of(instances, how), {.quiet = quiet, .unit = "nodes"});
  int64_t before = 0;
  return decode(model, instances, batch, how, [&](int64_t nodes) {
    bar.update(nodes, nodes - before);
    before = nodes;
    return !apps::stop_requested();
  });
}

// Labels take time and memory.
void check_labelled(const char* option, int64_t count) {
  apps::check_range(Config::app, option, count, count <= most_labelled,
                    fmt::format("at most {} uniform instances with labels", most_labelled).c_str());
}

// The first uniform test instances, as the model solves them.
void draw_samples(apps::Report& report, const RunRecord& run) {
  const auto loaded = apps::load_model<Config>(run.folder, on_cpu({}));
  const Config& c = loaded.config;
  const Instances some = test_instances(c.problem, c.nodes, 4);
  const Decoded best = decode(*loaded.model, some, 4, {.augment = true}, always).back();
  std::vector<apps::Drawing> drawings;
  for (size_t i = 0; i < some.all.size(); ++i) {
    const data::SolvedInstance& s = some.all[i];
    const double length = data::length(s.instance, best.solutions[i]);
    drawings.push_back(
        {to_svg(s.instance, best.solutions[i]),
         fmt::format("{}: {:.3f}, {:+.2f} %", best.name, length, 100 * (length / s.reference - 1))});
    drawings.push_back({to_svg(s.instance, s.routes), fmt::format("label: {:.3f}", s.reference)});
  }
  report.drawings(c.problem == Problem::tsp ? "Tours" : "Routes", drawings,
                  "Instances of the test, beside labels by local search. A square is the depot.");
}

}  // namespace

std::vector<apps::ModelSize> model_sizes(const Config& c) {
  const bool lehd = c.kind == Kind::lehd;
  return {{"dim", c.dim, "embed.weight", 0},
          {"hidden", c.hidden, lehd ? "encoder.mlp.fc1.weight" : "encoder.0.mlp.fc1.weight", 0},
          {"layers", c.layers, lehd ? "decoder." : "encoder.", apps::ModelSize::blocks}};
}

apps::ValidationScore validation_score(const Config& c) {
  if (c.validation == 0)
    fail(Config::app,
         "a setting is chosen on validation instances, but training evaluates those of the test; give "
         "--validation, for example 200");
  return {"test_gap", /*lowest*/ true};
}

void validate(const Config& c) {
  apps::check_fields(Config::app, c);
  apps::validate(Config::app, static_cast<const apps::TrainingFields&>(c));
  apps::check_range(Config::app, "heads", c.heads, c.dim % c.heads == 0, "a number that divides --dim");
  apps::check_range(Config::app, "device", c.device, c.device == "cpu" || c.device == "auto", "cpu");
  apps::check_range(Config::app, "dtype", choice_name(c.dtype), c.dtype == DType::f32, "f32");
  if (c.kind == Kind::pomo && !c.data.empty())
    fail(Config::app, "--data " + c.data + ": pomo needs no labels; leave it out, or give --model lehd");
  if (c.kind == Kind::lehd && c.data.empty()) check_labelled("instances", c.instances);
}

std::vector<std::pair<std::string, std::string>> without_effect(const Config& c) {
  if (c.kind == Kind::pomo) return {{"label-rounds", "pomo needs no labels"}};
  if (!c.data.empty()) return {{"label-rounds", "the labels are those of --data"}};
  return {};
}

apps::RunPage page_of(const RunRecord& r) {
  apps::RunPage page{.title = "Routing by construction", .subtitle = r.name};
  page.curves = curves();
  for (const Results& e : r.newest) {
    page.highlights.push_back({"Gap, " + e.decoding, percent(e.gap), e.data});
    if (!e.options.empty())
      page.commands.push_back("route eval --checkpoint " + apps::quoted(r.folder) + " " + e.options);
  }
  if (!r.newest.empty()) {
    page.highlights.push_back({"Gap, nearest neighbour", percent(r.newest[0].nearest_gap), r.newest[0].data});
    page.highlights.push_back({"Gap, savings", percent(r.newest[0].savings_gap), r.newest[0].data});
  }
  page.samples_title = "Solutions";
  page.samples = [&r](apps::Report& report) { draw_samples(report, r); };
  return page;
}

apps::Cells cells_of(const Results& r) {
  return {{"decoding", r.decoding},
          {"length", fmt::format("{:.4f}", r.length)},
          {"reference", fmt::format("{:.4f}", r.reference)},
          {"reference is", r.reference_is},
          {"gap", percent(r.gap)},
          {"nearest neighbour", percent(r.nearest_gap)},
          {"savings", percent(r.savings_gap)}};
}

apps::ComparedRun compared(const RunRecord& run) {
  const std::string own = apps::evaluated_weights(*run.config);
  apps::ComparedRun c = apps::compared_run(run);
  for (const Results& r : run.newest) {
    apps::MeasuredWith with = apps::measured_with(r, "instances", own);
    with.emplace_back("decoding", r.decoding);
    c.add({.name = "gap", .best = apps::Best::lowest, .percent = true, .with = with}, r.gap, 100);
    c.measured(r, own);
  }
  return c;
}

apps::ComparisonPage comparison_page(const std::vector<RunRecord>&) {
  return {.title = "Comparison of routing models", .curves = curves()};
}

nlohmann::ordered_json to_json(const Results& r) {
  nlohmann::ordered_json json = apps::to_json(r);
  json.update({{"decoding", r.decoding},
               {"length", r.length},
               {"reference", r.reference},
               {"reference_is", r.reference_is},
               {"gap", r.gap},
               {"nearest_gap", r.nearest_gap},
               {"savings_gap", r.savings_gap}});
  return json;
}

void from_json(const nlohmann::ordered_json& json, std::vector<Results>& all) {
  Results r;
  static_cast<apps::Conditions&>(r) = apps::conditions_from_json(json);
  r.decoding = apps::member_of<std::string>(json, "decoding");
  for (const auto& [name, value] : {std::pair{"length", &r.length},
                                    {"reference", &r.reference},
                                    {"gap", &r.gap},
                                    {"nearest_gap", &r.nearest_gap},
                                    {"savings_gap", &r.savings_gap}})
    *value = apps::member_of<double>(json, name);
  if (json.contains("reference_is")) r.reference_is = apps::member_of<std::string>(json, "reference_is");
  all.push_back(std::move(r));
}

bool alike(const Results& a, const Results& b) { return apps::alike(a, b) && a.decoding == b.decoding; }

namespace {

// Refuses options that the run's model does not have.
void check_decoding(const Config& c, bool rrc, bool augment, uint64_t seed) {
  if (c.kind == Kind::pomo && (rrc || seed > 0))
    fail(Config::app, fmt::format("{} belongs to lehd; the run is of pomo", rrc ? "--rrc" : "--seed"));
  if (c.kind == Kind::lehd && augment) fail(Config::app, "--augment belongs to pomo; the run is of lehd");
  if (!rrc && seed > 0) fail(Config::app, "--seed is of the draws of --rrc; give both");
}

class Evaluation : public apps::Evaluation<RunRecord> {
 public:
  explicit Evaluation(const EvalOptions& options) : apps::Evaluation<RunRecord>(options), options_(options) {}

 private:
  void open() override {
    const Config& c = config_;
    how_ = options_.decoding;
    std::sort(how_.rrc.begin(), how_.rrc.end());
    how_.rrc.erase(std::unique(how_.rrc.begin(), how_.rrc.end()), how_.rrc.end());
    std::erase(how_.rrc, 0);
    check_decoding(c, !how_.rrc.empty(), how_.augment, how_.seed);
    if (!options_.data.empty() && options_.nodes > 0)
      fail(Config::app, "--nodes is of uniform instances; leave it out with --data");
    if (options_.data.empty() && options_.max_nodes > 0)
      fail(Config::app, "--max-nodes is of a file's instances; give --data");
    if (options_.nodes > 0 && options_.nodes < 3)
      fail(Config::app, fmt::format("--nodes is {}, need at least 3", options_.nodes));
    // The instances of a batch share their draws.
    if (!how_.rrc.empty() && config_.eval_batch_size != Config().eval_batch_size)
      how_.batch = config_.eval_batch_size;
    if (options_.data.empty()) {
      const int64_t nodes = options_.nodes > 0 ? options_.nodes : c.nodes;
      const int64_t count = options_.limit > 0 ? options_.limit : c.test_instances;
      check_labelled("limit", count);
      instances_ = test_instances(c.problem, nodes, count, options_.quiet);
      command_ = fmt::format("--nodes {} --limit {}", nodes, count);
    } else {
      instances_ = read_instances(options_.data, options_.limit, options_.max_nodes);
      command_ = "--data " + apps::quoted(options_.data);
      if (options_.limit > 0) command_ += fmt::format(" --limit {}", options_.limit);
      if (options_.max_nodes > 0) command_ += fmt::format(" --max-nodes {}", options_.max_nodes);
    }
    if (instances_.has_depots() != (c.problem == Problem::cvrp))
      fail(Config::app, fmt::format("{} has instances of {}, the run solves {}", options_.data,
                                    instances_.has_depots() ? "cvrp" : "tsp", choice_name(c.problem)));
    for (const data::SolvedInstance& s : instances_.all)
      if (const int64_t depot = s.instance.has_depot(); s.instance.size() > data::most_nodes_of_savings)
        fail(Config::app, fmt::format("{}: {} has {} {}; leave it out with --max-nodes {}", options_.data,
                                      name_of(s.instance), s.instance.size() - depot,
                                      depot ? "customers" : "nodes", data::most_nodes_of_savings - depot));
    baselines_ = baselines_of(instances_);
    for (const int64_t n : how_.rrc) command_ += fmt::format("{}{}", n == how_.rrc[0] ? " --rrc " : ",", n);
    if (!how_.rrc.empty()) command_ += fmt::format(" --seed {}", how_.seed);
    if (how_.batch > 0) command_ += fmt::format(" --batch-size {}", how_.batch);
    if (how_.augment) command_ += " --augment";
    if (const std::string load = options_.load.arguments(); !load.empty()) command_ += " " + load;
  }
  bool measure() override {
    const auto all =
        decode_visibly("eval", *loaded_.model, instances_, config_.eval_batch_size, how_, options_.quiet);
    for (const Decoded& decoded : all) {
      Results r = measured();
      score(instances_, baselines_, decoded, r);
      r.options = command_;
      results_.push_back(r);
      keep(r);
    }
    return !all.empty();
  }
  nlohmann::ordered_json json() const override {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (const Results& r : results_) json.push_back(to_json(r));
    return json;
  }
  void print() const override { apps::print("{}", apps::Lines{apps::to_text(to_table(results_))}); }

  const EvalOptions& options_;
  Decoding how_;
  Instances instances_;
  Baselines baselines_;
  std::string command_;
  std::vector<Results> results_;
};

// TSPLIB's TOUR section, or CVRPLIB's list of routes.
std::string to_text(const data::RoutingInstance& instance, const data::Routes& routes, double length) {
  std::string text;
  if (instance.has_depot()) {
    for (size_t i = 0; i < routes.size(); ++i) {
      text += fmt::format("Route #{}:", i + 1);
      for (const int64_t node : routes[i]) text += fmt::format(" {}", node);
      text += "\n";
    }
    return text + fmt::format("Cost {}\n", length);
  }
  text = fmt::format("NAME : {}\nCOMMENT : length {}\nTYPE : TOUR\nDIMENSION : {}\nTOUR_SECTION\n",
                     printable(instance.name), length, instance.size());
  for (const int64_t node : routes[0]) text += fmt::format("{}\n", node + 1);
  return text + "-1\nEOF\n";
}

}  // namespace

int eval(const EvalOptions& options) {
  EvalOptions on = options;
  on.load = on_cpu(options.load);
  return Evaluation(on).run();
}

int solve(const SolveOptions& options) {
  const auto loaded = apps::load_model<Config>(options.checkpoint, on_cpu(options.load));
  Instances one;
  one.all.push_back({.instance = data::read_tsplib(options.file)});
  const data::RoutingInstance& instance = one.all[0].instance;
  if (instance.has_depot() != (loaded.config.problem == Problem::cvrp))
    fail(Config::app, fmt::format("{} is a {}, the run solves {}", options.file,
                                  instance.has_depot() ? "cvrp" : "tsp", choice_name(loaded.config.problem)));
  check_decoding(loaded.config, options.rrc > 0, options.augment.value_or(false), options.seed);
  for (const std::string& file : {options.svg, options.solution})
    if (!file.empty()) apps::prepare_output(file);
  Decoding how{.augment = options.augment.value_or(true), .seed = options.seed};
  if (options.rrc > 0) how.rrc = {options.rrc};
  apps::catch_stop_signals();
  const auto decoded = decode_visibly("solve", *loaded.model, one, 1, how, false);
  if (decoded.empty()) {
    apps::note("stopped; nothing was written\n");
    return 1;
  }
  apps::Table table{{"solution", "length"}, {}};
  if (instance.has_depot()) table.columns.insert(table.columns.end(), {"routes", "largest load"});
  const auto add = [&](const std::string& name, const data::Routes& routes) {
    data::verify(instance, routes);
    std::vector<std::string> row = {name, fmt::format("{}", data::length(instance, routes))};
    if (instance.has_depot()) {
      int64_t most = 0;
      for (const data::Route& route : routes) most = std::max(most, data::load(instance, route));
      row.push_back(std::to_string(routes.size()));
      row.push_back(fmt::format("{} of {}", most, instance.capacity));
    }
    table.rows.push_back(row);
  };
  for (const Decoded& d : decoded) add(d.name, d.solutions[0]);
  add("nearest neighbour", data::nearest_neighbour(instance));
  if (instance.size() <= 5000) add("savings", data::savings(instance));
  apps::print("{}", apps::Lines{apps::to_text(table)});
  const data::Routes& best = decoded.back().solutions[0];
  const auto write = [](const std::string& file, const std::string& text) {
    if (!file.empty()) apps::write_file_atomically(file, text);
  };
  write(options.solution, to_text(instance, best, data::length(instance, best)));
  write(options.svg, to_svg(instance, best, 800));
  return 0;
}

}  // namespace pursuit::route

template void pursuit::apps::apply(const Recipe&, pursuit::route::Config&);
