#include "apps/route/instances.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "data/fingerprint.h"
#include "data/routing/baselines.h"
#include "data/routing/local_search.h"
#include "data/routing/tsplib.h"
#include "engine/base/streams.h"
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
                            uint64_t first) {
  Instances made;
  made.all.resize(size_t(count));
  parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Random random(seed, streams::routing.at(first + uint64_t(i)));
      data::SolvedInstance& s = made.all[size_t(i)];
      s.instance =
          problem == Problem::tsp ? data::uniform_tsp(nodes, random) : data::uniform_cvrp(nodes, random);
      s.routes = data::local_search(s.instance, rounds, random);
      data::verify(s.instance, s.routes);
      s.reference = data::length(s.instance, s.routes);
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

Instances training_instances(Problem problem, int64_t nodes, int64_t count, int64_t rounds, uint64_t seed) {
  return uniform_instances(problem, nodes, count, rounds, seed, 0);
}

Instances test_instances(Problem problem, int64_t nodes, int64_t count) {
  return uniform_instances(problem, nodes, count, evaluation_rounds, 0, streams::pow2(40));
}

Instances validation_instances(Problem problem, int64_t nodes, int64_t count) {
  Instances made =
      uniform_instances(problem, nodes, count, evaluation_rounds, 0, streams::pow2(40) + streams::pow2(39));
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
      fail("route", fmt::format("{}: all distances of {} are 0; EUC_2D rounds them to whole numbers", path,
                                s.instance.name.empty() ? "an instance" : printable(s.instance.name)));
  }
  read.name = file.filename().string();
  read.fingerprint = fingerprint(read.all);
  return read;
}

}  // namespace pursuit::route
