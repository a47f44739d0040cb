#include <algorithm>
#include <map>

#include "apps/route/route.h"
#include "data/routing/baselines.h"

namespace pursuit::route {

namespace {

// Of a batch of instances of one size, the solutions of every way to decode. `goes_on` is told the nodes of
// each instance; where it returns false, nothing is returned.
std::vector<std::vector<data::Routes>> decode_batch(const Model& model, RoutingInstances instances,
                                                    const Decoding& how, Random& random,
                                                    const GoesOn& goes_on) {
  std::vector<std::vector<data::Routes>> all;
  int64_t before = 0;  // nodes of the solutions that are made
  const auto within = [&](int64_t nodes) { return goes_on(before + nodes); };
  const auto made = [&] { return goes_on(before += instances[0].size()); };
  if (model.lehd) {
    std::vector<data::Routes> solutions = route::greedy(*model.lehd, instances, within);
    if (solutions.empty() || !made()) return {};
    all.push_back(solutions);
    int64_t iterations = 0;
    for (const int64_t until : how.rrc) {
      for (; iterations < until; ++iterations)
        if (!route::reconstruct(*model.lehd, instances, solutions, random, within) || !made()) return {};
      all.push_back(solutions);
    }
  } else {
    all.resize(how.augment ? 3 : 2);
    for (PomoSolution& s : route::greedy(*model.pomo, instances, how.augment)) {
      all[0].push_back(std::move(s.single));
      all[1].push_back(std::move(s.best));
      if (how.augment) all[2].push_back(std::move(s.augmented));
    }
    if (!made()) return {};
  }
  return all;
}

}  // namespace

std::vector<Decoded> decode(const Model& model, const Instances& instances, int64_t batch,
                            const Decoding& how, const GoesOn& goes_on) {
  std::vector<Decoded> all;
  if (model.lehd) {
    all.push_back({"greedy"});
    const std::string draws = (how.seed > 0 ? ", seed " + std::to_string(how.seed) : "") +
                              (how.batch > 0 ? ", batches of " + std::to_string(how.batch) : "");
    for (const int64_t iterations : how.rrc) all.push_back({"rrc" + std::to_string(iterations) + draws});
  } else {
    all = {{"single"}, {"starts"}};
    if (how.augment) all.push_back({"x8"});
  }
  for (Decoded& d : all) d.solutions.resize(instances.all.size());

  std::map<int64_t, std::vector<size_t>> by_size;
  for (size_t i = 0; i < instances.all.size(); ++i) by_size[instances.all[i].instance.size()].push_back(i);
  const int64_t all_nodes = nodes_of(instances, how);
  int64_t before = 0, number = 0;  // nodes and number of the finished batches
  for (const auto& [size, members] : by_size)
    for (size_t begin = 0; begin < members.size(); begin += size_t(batch)) {
      const size_t end = std::min(members.size(), begin + size_t(batch));
      std::vector<data::RoutingInstance> some;
      for (size_t i = begin; i < end; ++i) some.push_back(instances.all[members[i]].instance);
      Random random(how.seed, streams::routing.at(rrc_streams + uint64_t(number++)));
      int64_t made = before;
      auto solved = decode_batch(model, some, how, random, [&](int64_t nodes) {
        made = before + nodes * int64_t(some.size());
        return goes_on(made) || made == all_nodes;
      });
      if (solved.empty()) return {};
      before = made;
      for (size_t d = 0; d < all.size(); ++d)
        for (size_t i = begin; i < end; ++i) all[d].solutions[members[i]] = std::move(solved[d][i - begin]);
    }
  return all;
}

int64_t nodes_of(const Instances& instances, const Decoding& how) {
  int64_t nodes = 0;
  for (const data::SolvedInstance& s : instances.all) nodes += s.instance.size();
  return nodes * (1 + (how.rrc.empty() ? 0 : how.rrc.back()));
}

Baselines baselines_of(const Instances& instances) {
  Baselines b;
  for (const data::SolvedInstance& s : instances.all) {
    b.nearest.push_back(data::length(s.instance, data::nearest_neighbour(s.instance)));
    b.savings.push_back(data::length(s.instance, data::savings(s.instance)));
  }
  return b;
}

void score(const Instances& instances, const Baselines& baselines, const Decoded& decoded, Results& r) {
  r.data = instances.name;
  r.fingerprint = instances.fingerprint;
  r.count = int64_t(instances.all.size());
  r.decoding = decoded.name;
  r.reference_is = instances.reference;
  r.length = r.reference = r.gap = r.nearest_gap = r.savings_gap = 0;
  const double share = 1 / double(r.count);
  for (size_t i = 0; i < instances.all.size(); ++i) {
    const double known = instances.all[i].reference, nearest = baselines.nearest[i];
    const double reference = known > 0 ? known : nearest;
    const auto gap = [&](double length) { return (length / reference - 1) * share; };
    const double length = data::length(instances.all[i].instance, decoded.solutions[i]);
    r.length += length * share;
    r.reference += reference * share;
    r.gap += gap(length);
    r.nearest_gap += gap(nearest);
    r.savings_gap += gap(baselines.savings[i]);
  }
}

}  // namespace pursuit::route
