#pragma once
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "apps/route/instances.h"
#include "apps/route/model.h"
#include "apps/route/solve.h"
#include "apps/run/fields.h"
#include "apps/study/comparison_page.h"
#include "apps/study/evaluation.h"
#include "apps/study/run_page.h"
#include "apps/training/training_run.h"

// Routing by learned construction: LEHD, which learns labels, and POMO, which learns by reinforcement.
namespace pursuit::route {

// The options of `route train`, of recipes and of config.json.
struct Config : apps::TrainingFields {
  static constexpr const char *app = "route", *unit = "instances";
  static constexpr std::array fixed = {"dtype", "device", "inspect-every"};
  using Model = route::Model;

  Kind kind = Kind::lehd;
  Problem problem = Problem::tsp;
  int64_t nodes = 20, instances = 20000, test_instances = 200, label_rounds = 100, validation = 0;
  std::string data;
  int64_t dim = 64, layers = 3, heads = 4, hidden = 256;
  nn::NodeNormKind norm = nn::NodeNormKind::none;

  Config() {
    device = "cpu";
    batch_size = 64;
    weight_decay = 0;
    warmup_epochs = 0;
  }
};

template <class C, class F> void for_each_field(C& c, const F& f) {
  f("model", c.kind, "Model");
  f("problem", c.problem, "Travelling salesman, or vehicles with a capacity");
  f("nodes", c.nodes, "Nodes of uniform instances (cvrp: customers)", apps::Range{5, 1000});
  f("instances", c.instances,
    "Instances of an epoch: lehd labels as many or reads the first of --data, pomo draws new ones in every "
    "epoch",
    apps::Range{1, 1e9});
  f("test-instances", c.test_instances, "Uniform instances to test on", apps::Range{1, most_labelled});
  f("validation", c.validation,
    "In training, measure the gap on this many instances that are not those of the test (0: on these)",
    apps::Range{0, most_labelled});
  f("label-rounds", c.label_rounds, "Rounds of local search of a label", apps::Range{0, 1e6});
  f("data", c.data, "lehd: a file of instances with solutions in place of uniform ones with labels");
  f("dim", c.dim, "Width of the model", apps::Range{1, 4096});
  f("layers", c.layers, "Layers of lehd's decoder or pomo's encoder", apps::Range{1, 100});
  f("heads", c.heads, "Attention heads", apps::Range{1, 256});
  f("hidden", c.hidden, "Hidden width of the layers' MLPs", apps::Range{1, 65536});
  f("norm", c.norm, "Norm after each sum of a layer");
  for_each_training_field(c, f);
}

inline ModelConfig model_config(const Config& c) {
  return {c.kind, {c.dim, c.heads, c.hidden, c.norm}, c.layers, c.problem == Problem::cvrp};
}
std::vector<apps::ModelSize> model_sizes(const Config& config);
void validate(const Config& config);
std::vector<std::pair<std::string, std::string>> without_effect(const Config& config);
apps::ValidationScore validation_score(const Config& config);

// Results of one way to decode. Gaps are means over the instances of length / reference - 1. The reference is
// the label, the published solution, the best known length or, where a file has none of these, the length of
// nearest neighbour.
struct Results : apps::Conditions {
  std::string decoding;              // "greedy", "rrc50", "rrc50, seed 1"; of POMO "single", "starts", "x8"
  double length = 0, reference = 0;  // means
  std::string reference_is;          // Instances::reference; empty in older files
  double gap = 0, nearest_gap = 0, savings_gap = 0;
};
nlohmann::ordered_json to_json(const Results& results);
void from_json(const nlohmann::ordered_json& json, std::vector<Results>& all);
bool alike(const Results& a, const Results& b);

using RunRecord = apps::RunRecord<Config, Results>;
apps::RunPage page_of(const RunRecord& run);
apps::Cells cells_of(const Results& results);
apps::ComparedRun compared(const RunRecord& run);
apps::ComparisonPage comparison_page(const std::vector<RunRecord>& runs);

// How a model decodes. LEHD: greedy, and after each of `rrc` iterations of random re-construct, rising
// numbers. POMO: from node 0, from all nodes, and with `augment` in eight symmetries.
struct Decoding {
  std::vector<int64_t> rrc = {};
  bool augment = false;
  uint64_t seed = 0;  // of the windows
  int64_t batch = 0;  // of instances that share the windows; 0: the run's
};
struct Decoded {
  std::string name;
  std::vector<data::Routes> solutions = {};  // verified; of each instance
};
// `goes_on` is told how many nodes are visited, of `nodes_of`: all of an instance, and all again in every
// iteration. Where it returns false before the last, nothing is returned.
std::vector<Decoded> decode(const Model& model, const Instances& instances, int64_t batch,
                            const Decoding& how, const GoesOn& goes_on);
int64_t nodes_of(const Instances& instances, const Decoding& how);

// Lengths of the instances' tours by two heuristics. Throws Error if an instance is too large for savings.
struct Baselines {
  std::vector<double> nearest, savings;
};
Baselines baselines_of(const Instances& instances);
// Puts the scores of decoded solutions into `results`, which has the other conditions.
void score(const Instances& instances, const Baselines& baselines, const Decoded& decoded, Results& results);

int train(const Config& config, const apps::RunOptions& options,
          distributed::Communicator& ranks = distributed::alone());

struct EvalOptions : apps::EvalOptions {
  // Of uniform instances (0: the run's); the most of a file's instances (0: any). cvrp: customers.
  int64_t nodes = 0, max_nodes = 0;
  Decoding decoding;
};
int eval(const EvalOptions& options);

struct SolveOptions {
  std::string checkpoint, file, svg, solution;
  apps::LoadOptions load;
  int64_t rrc = 0;
  std::optional<bool> augment;  // default: true of pomo
  uint64_t seed = 0;
};
int solve(const SolveOptions& options);

}  // namespace pursuit::route
