#include "apps/route/instances.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <mutex>

#include "apps/terminal/progress.h"
#include "data/fingerprint.h"
#include "data/routing/baselines.h"
#include "data/routing/local_search.h"
#include "data/routing/tsplib.h"
#include "engine/base/text.h"
#include "engine/cpu/parallel.h"

namespace pursuit::route {

namespace {

std::string fingerprint(const std::vector<data::SolvedInstance>& all) {
  std::string text;
  for (const data::SolvedInstance& s : all) {
    const data::RoutingInstance& i = s.instance;
    text += fmt::format("{} {} {} {};", i.size(), int(i.metric), i.capacity, s.reference);
    for (const data::Location& p : i.nodes) text += fmt::format("{} {},", p.x, p.y);
    text += fmt::format("{};", fmt::join(i.demands, ","));
    for (const data::Route& route : s.routes) text += fmt::format("{};", fmt::join(route, ","));
  }
  return data::fingerprint(text);
}

constexpr int64_t evaluation_rounds = 500;  // of local search

// Instance i is drawn from stream first + i.
Instances uniform_instances(Problem problem, int64_t nodes, int64_t count, int64_t rounds, uint64_t seed,
                            uint64_t first, bool quiet) {
  Instances made;
  made.all.resize(size_t(count));
  apps::Progress bar("labels", 0, count, {.quiet = quiet, .unit = "instances"});
  std::mutex of_bar;
  int64_t labelled = 0;
  parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Random random(seed, streams::routing.at(first + uint64_t(i)));
      data::SolvedInstance& s = made.all[size_t(i)];
      s.instance =
          problem == Problem::tsp ? data::uniform_tsp(nodes, random) : data::uniform_cvrp(nodes, random);
      s.routes = data::local_search(s.instance, rounds, random);
      data::verify(s.instance, s.routes);
      s.reference = data::length(s.instance, s.routes);
      const std::lock_guard lock(of_bar);
      bar.update(++labelled, 1);
    }
  });
  made.name = uniform_name(problem, nodes);
  made.fingerprint = fingerprint(made.all);
  made.found = count;
  made.reference = "local search";
  return made;
}

}  // namespace

std::string uniform_name(Problem problem, int64_t nodes) {
  return fmt::format("uniform {}{}", problem == Problem::tsp ? "TSP" : "CVRP", nodes);
}

std::string name_of(const data::RoutingInstance& instance) {
  return instance.name.empty() ? "an instance" : printable(instance.name);
}

Instances training_instances(Problem problem, int64_t nodes, int64_t count, int64_t rounds, uint64_t seed,
                             bool quiet) {
  return uniform_instances(problem, nodes, count, rounds, seed, training_streams, quiet);
}

Instances test_instances(Problem problem, int64_t nodes, int64_t count, bool quiet) {
  return uniform_instances(problem, nodes, count, evaluation_rounds, 0, test_streams, quiet);
}

Instances validation_instances(Problem problem, int64_t nodes, int64_t count, bool quiet) {
  Instances made = uniform_instances(problem, nodes, count, evaluation_rounds, 0, validation_streams, quiet);
  made.name += " validation";
  return made;
}

Instances read_instances(const std::string& path, int64_t limit, int64_t max_nodes) {
  Instances read;
  const std::filesystem::path file(path);
  if (file.extension() == ".tsp" || file.extension() == ".vrp")
    read.all.push_back({.instance = data::read_tsplib(path)});
  else
    read.all = data::read_published(path);
  if (max_nodes > 0)
    std::erase_if(read.all, [&](const data::SolvedInstance& s) {
      return s.instance.size() - s.instance.has_depot() > max_nodes;
    });
  read.found = int64_t(read.all.size());
  if (limit > 0 && int64_t(read.all.size()) > limit) read.all.resize(size_t(limit));
  if (read.all.empty())
    fail("route", path + ": no instance of up to " + std::to_string(max_nodes) + " nodes");
  const auto known = std::count_if(read.all.begin(), read.all.end(),
                                   [](const data::SolvedInstance& s) { return s.reference > 0; });
  read.reference = known == 0                      ? "nearest neighbour"
                   : known == std::ssize(read.all) ? "published"
                                                   : "published, or nearest neighbour where there is none";
  for (const data::SolvedInstance& s : read.all) {
    if (s.instance.has_depot() != read.has_depots())
      fail("route", path + ": some instances have a depot, some none");
    // A gap is a share of this length.
    if (!(s.reference > 0) && !(data::length(s.instance, data::nearest_neighbour(s.instance)) > 0))
      fail("route", fmt::format("{}: all distances of {} are 0{}", path, name_of(s.instance),
                                s.instance.metric == data::Metric::exact
                                    ? ""
                                    : fmt::format("; {} rounds them to whole numbers",
                                                  choice_name(s.instance.metric))));
  }
  read.name = file.filename().string();
  read.fingerprint = fingerprint(read.all);
  return read;
}

}  // namespace pursuit::route
