#include <algorithm>
#include <map>

#include "apps/route/route.h"
#include "apps/route/solve.h"
#include "data/routing/baselines.h"
#include "engine/base/streams.h"

namespace pursuit::route {

namespace {

// Of a batch of instances of one size, the solutions of every way to decode.
std::vector<std::vector<data::Routes>> decode_batch(const Model& model, RoutingInstances instances,
                                                    const Decoding& how, Random& random) {
  std::vector<std::vector<data::Routes>> all;
  if (model.lehd) {
    std::vector<data::Routes> solutions = route::greedy(*model.lehd, instances);
    all.push_back(solutions);
    int64_t iterations = 0;
    for (const int64_t until : how.rrc) {
      for (; iterations < until; ++iterations) route::reconstruct(*model.lehd, instances, solutions, random);
      all.push_back(solutions);
    }
  } else {
    all.resize(how.augment ? 3 : 2);
    for (PomoSolution& s : route::greedy(*model.pomo, instances, how.augment)) {
      all[0].push_back(std::move(s.single));
      all[1].push_back(std::move(s.best));
      if (how.augment) all[2].push_back(std::move(s.augmented));
    }
  }
  return all;
}

}  // namespace

std::vector<Decoded> decode(const Model& model, const Instances& instances, int64_t batch,
                            const Decoding& how, const std::function<bool(int64_t)>& done) {
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
  int64_t finished = 0, number = 0;
  for (const auto& [size, members] : by_size)
    for (size_t begin = 0; begin < members.size(); begin += size_t(batch)) {
      const size_t end = std::min(members.size(), begin + size_t(batch));
      std::vector<data::RoutingInstance> some;
      for (size_t i = begin; i < end; ++i) some.push_back(instances.all[members[i]].instance);
      Random random(how.seed,
                    streams::routing.at(streams::pow2(40) + streams::pow2(39) + uint64_t(number++)));
      auto solved = decode_batch(model, some, how, random);
      for (size_t d = 0; d < all.size(); ++d)
        for (size_t i = begin; i < end; ++i) all[d].solutions[members[i]] = std::move(solved[d][i - begin]);
      finished += int64_t(end - begin);
      if (!done(finished) && finished < int64_t(instances.all.size())) return {};
    }
  return all;
}

void score(const Instances& instances, const Decoded& decoded, Results& r) {
  r.data = instances.name;
  r.fingerprint = instances.fingerprint;
  r.count = int64_t(instances.all.size());
  r.decoding = decoded.name;
  r.length = r.reference = r.gap = r.nearest_gap = r.savings_gap = 0;
  const double share = 1 / double(r.count);
  for (size_t i = 0; i < instances.all.size(); ++i) {
    const data::RoutingInstance& instance = instances.all[i].instance;
    const data::Routes nearest = data::nearest_neighbour(instance), joined = data::savings(instance);
    const double known = instances.all[i].reference, nearest_length = data::length(instance, nearest);
    const double reference = known > 0 ? known : nearest_length;
    const auto gap = [&](double length) { return (length / reference - 1) * share; };
    const double length = data::length(instance, decoded.solutions[i]);
    r.length += length * share;
    r.reference += reference * share;
    r.gap += gap(length);
    r.nearest_gap += gap(nearest_length);
    r.savings_gap += gap(data::length(instance, joined));
  }
}

}  // namespace pursuit::route
