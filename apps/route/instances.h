#pragma once
#include <string>
#include <vector>

#include "data/routing/published.h"
#include "engine/base/streams.h"

namespace pursuit::route {

enum class Problem { tsp, cvrp };
inline std::vector<Choice<Problem>> choices_of(Problem) {
  return {{"tsp", Problem::tsp}, {"cvrp", Problem::cvrp}};
}

// Solved instances, which training or an evaluation takes.
struct Instances {
  std::vector<data::SolvedInstance> all;
  std::string name;         // "uniform TSP20"
  std::string fingerprint;  // of all numbers
  int64_t found = 0;        // in the file, before a limit
  std::string reference;    // what gaps are to: "local search", "published", "nearest neighbour"

  bool has_depots() const { return all[0].instance.has_depot(); }
};

std::string uniform_name(Problem problem, int64_t nodes);    // "uniform TSP20"
std::string name_of(const data::RoutingInstance& instance);  // for messages; "an instance" if it has none

// Where they begin in streams::routing: an instance takes one, and so does a batch in random re-construct. The
// batches share those of validation instances, on which no re-construct runs.
constexpr uint64_t training_streams = 0, test_streams = streams::pow2(40),
                   validation_streams = test_streams + streams::pow2(39), rrc_streams = validation_streams;

constexpr int64_t most_labelled = 1'000'000;  // uniform instances, which are all held in memory

// Uniform instances with labels of `rounds` rounds of local search, by all threads. Instance i is the same
// for every count. Unless `quiet` progress is shown.
Instances training_instances(Problem problem, int64_t nodes, int64_t count, int64_t rounds, uint64_t seed,
                             bool quiet = true);
// The same for all runs, and others than those of training; labels of 500 rounds. Those for validation are
// others than those of the test.
Instances test_instances(Problem problem, int64_t nodes, int64_t count, bool quiet = true);
Instances validation_instances(Problem problem, int64_t nodes, int64_t count, bool quiet = true);

// Those of a file of published instances, or of a .tsp or .vrp; `limit` 0: all, `max_nodes` (without depots) 0:
// of any size. Throws Error that names the file if none is left, if some have a depot and some have none, or if
// all distances of one are 0.
Instances read_instances(const std::string& path, int64_t limit, int64_t max_nodes);

}  // namespace pursuit::route
