#include "apps/route/solve.h"

#include <algorithm>
#include <numeric>

#include "apps/route/partial.h"

namespace pursuit::route {

namespace {

void check_sizes(RoutingInstances instances, bool depot) {
  for (const data::RoutingInstance& instance : instances) {
    if (instance.size() != instances[0].size())
      fail("routing", "got instances of " + std::to_string(instances[0].size()) + " and " +
                          std::to_string(instance.size()) + " nodes in one batch");
    if (instance.has_depot() != depot)
      fail("routing", depot ? "the model is of the CVRP, the instance a TSP"
                            : "the model is of the TSP, the instance a CVRP");
  }
}

// The part of an instance that a model constructs: rows of nodes, two of which are given.
struct Part {
  std::vector<int64_t> nodes;
  int64_t free = 0;  // CVRP: what the vehicle can still carry
};
// Rows of a table [B * count, width]: [B, rows, width], those that row(b, i) names of the `count` of b.
template <class Row> Tensor pick(const Tensor& table, int64_t batch, int64_t rows, const Row& row) {
  const int64_t count = table.size(0) / batch;
  std::vector<int64_t> ids;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t i = 0; i < rows; ++i) ids.push_back(b * count + row(size_t(b), size_t(i)));
  return embedding(from_vector(ids, {batch, rows}), table);
}

// Fills parts of one size greedily, from row `current` to row `destination`, which may be the same. Returns
// what is visited in between, in order, or nothing if it was ended.
std::vector<Visits> fill(const nn::Lehd& model, RoutingInstances instances, std::vector<Part> parts,
                         int64_t destination, int64_t current, const GoesOn& goes_on) {
  const NoGrad off;
  const bool depot = model.config().depot;
  const int64_t batch = int64_t(parts.size()), size = int64_t(parts[0].nodes.size());
  const Tensor features = routing_features(instances);
  const Tensor nodes = pick(features.reshape({-1, features.size(2)}), batch, size,
                            [&](size_t b, size_t i) { return parts[b].nodes[i]; });
  const Tensor rows = model.encode(nodes).reshape({batch * size, -1});
  const Tensor last = pick(rows, batch, 1, [&](size_t, size_t) { return destination; });

  std::vector<int64_t> open;
  for (int64_t i = 0; i < size; ++i)
    if (i != destination && i != current) open.push_back(i);
  std::vector<std::vector<int64_t>> left(parts.size(), open);
  std::vector<int64_t> at(parts.size(), current);
  std::vector<Visits> visits(parts.size());
  for (int64_t m = int64_t(open.size()); m > 0; --m) {
    if (!goes_on(int64_t(open.size()) - m)) return {};
    std::vector<int64_t> choice(parts.size());
    if (m > 1 || depot) {
      Tensor load;
      if (depot) {
        std::vector<float> shares;
        for (size_t b = 0; b < parts.size(); ++b)
          shares.push_back(float(double(parts[b].free) / double(instances[b].capacity)));
        load = from_vector(shares, {batch, 1, 1});
      }
      const Tensor remaining = pick(rows, batch, m, [&](size_t b, size_t i) { return left[b][i]; });
      const Tensor now = pick(rows, batch, 1, [&](size_t b, size_t) { return at[b]; });
      const Tensor best = argmax(model.decode(last, remaining, now, load));
      std::copy_n(best.data<int64_t>(), batch, choice.begin());
    }
    for (size_t b = 0; b < parts.size(); ++b) {
      const int64_t row = left[b][size_t(choice[b] % m)], node = parts[b].nodes[size_t(row)];
      bool via_depot = false;
      if (depot) {
        const int64_t demand = instances[b].demands[size_t(node)];
        via_depot = choice[b] >= m || demand > parts[b].free;
        parts[b].free = (via_depot ? instances[b].capacity : parts[b].free) - demand;
      }
      visits[b].push_back({node, via_depot});
      at[b] = row;
      left[b].erase(left[b].begin() + choice[b] % m);
    }
  }
  return visits;
}

// Of the nodes that POMO visits, in order; of a CVRP 0 is the depot.
data::Routes to_routes(const data::RoutingInstance& instance, const std::vector<int64_t>& order) {
  Visits visits;
  bool via_depot = false;
  for (const int64_t node : order) {
    const bool at_depot = instance.has_depot() && node == 0;
    if (!at_depot) visits.push_back({node, via_depot});
    via_depot = at_depot;
  }
  return route::to_routes(instance, visits);
}

std::vector<int64_t> numbers(int64_t count) {
  std::vector<int64_t> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

std::vector<data::Routes> greedy(const nn::Lehd& model, RoutingInstances instances, const GoesOn& goes_on) {
  check_sizes(instances, model.config().depot);
  if (instances.empty()) return {};
  std::vector<Part> parts;
  for (const data::RoutingInstance& instance : instances)
    parts.push_back({numbers(instance.size()), instance.capacity});
  std::vector<data::Routes> solutions;
  const std::vector<Visits> filled = fill(model, instances, parts, 0, 0, goes_on);
  if (filled.empty()) return {};
  for (size_t b = 0; b < instances.size(); ++b) {
    Visits visits;
    if (!instances[b].has_depot()) visits = {{0}};
    visits.insert(visits.end(), filled[b].begin(), filled[b].end());
    solutions.push_back(to_routes(instances[b], visits));
    data::verify(instances[b], solutions[b]);
  }
  return solutions;
}

bool reconstruct(const nn::Lehd& model, RoutingInstances instances, std::vector<data::Routes>& solutions,
                 Random& random, const GoesOn& goes_on) {
  const bool depot = model.config().depot;
  check_sizes(instances, depot);
  if (solutions.size() != instances.size())
    fail("routing", "got " + std::to_string(solutions.size()) + " solutions of " +
                        std::to_string(instances.size()) + " instances");
  const int64_t visited = instances.empty() ? 0 : instances[0].size() - depot;
  if (visited < 4) return true;
  const bool turn = random.flip();
  const int64_t window = 4 + random.below(visited - 3);
  const size_t first = size_t(visited - window);  // of the window, which is at the end
  std::vector<Visits> sequences;
  std::vector<Part> parts;
  for (size_t b = 0; b < instances.size(); ++b) {
    const Visits visits = any_sequence(instances[b], solutions[b], turn, random);
    Part part;
    if (depot) part = {{0}, free_after(instances[b], visits, first)};
    for (size_t i = first; i < visits.size(); ++i) part.nodes.push_back(visits[i].node);
    parts.push_back(part);
    sequences.push_back(visits);
  }
  const std::vector<Visits> filled = fill(model, instances, parts, depot ? 0 : window - 1, depot, goes_on);
  if (filled.empty()) return false;
  for (size_t b = 0; b < instances.size(); ++b) {
    Visits& visits = sequences[b];
    std::copy(filled[b].begin(), filled[b].end(), visits.begin() + int64_t(first) + 1);
    const data::Routes made = to_routes(instances[b], visits);
    data::verify(instances[b], made);
    if (data::length(instances[b], made) < data::length(instances[b], solutions[b])) solutions[b] = made;
  }
  return true;
}

std::vector<PomoSolution> greedy(const nn::Pomo& model, RoutingInstances instances, bool augment) {
  const NoGrad off;
  check_sizes(instances, model.config().depot);
  if (instances.empty()) return {};
  Tensor nodes = routing_features(instances);
  std::vector<data::RoutingInstance> rows(instances.begin(), instances.end());  // of `nodes`
  if (augment) {
    nodes = nn::eight_symmetries(nodes);
    for (int symmetry = 1; symmetry < 8; ++symmetry)
      rows.insert(rows.end(), instances.begin(), instances.end());
  }
  const nn::Pomo::Tours tours = model.construct(nodes, nullptr, vehicle_loads(rows));
  std::vector<PomoSolution> solutions(instances.size());
  for (size_t t = 0; t < tours.orders.size(); ++t) {
    const size_t row = t / size_t(tours.starts), b = row % instances.size();
    const bool as_given = row < instances.size();
    PomoSolution& s = solutions[b];
    const data::Routes routes = to_routes(instances[b], tours.orders[t]);
    data::verify(instances[b], routes);
    const double length = data::length(instances[b], routes);
    const auto improves = [&](const data::Routes& best) {
      return best.empty() || length < data::length(instances[b], best);
    };
    if (as_given && t % size_t(tours.starts) == 0) s.single = routes;
    if (as_given && improves(s.best)) s.best = routes;
    if (augment && improves(s.augmented)) s.augmented = routes;
  }
  return solutions;
}

}  // namespace pursuit::route
