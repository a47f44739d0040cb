#include "data/routing/local_search.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "data/routing/baselines.h"
#include "engine/base/error.h"

namespace pursuit::data {

namespace {

// Times the largest distance: moves that gain less may be rounding errors, which would go on for ever.
constexpr double kLeastGain = 1e-12;

// A closed tour, changed by reversals of paths. Nodes whose edges changed wait to be examined: a move that
// begins and ends at others was examined before and gained nothing ("don't look bits", Bentley 1992).
class TourSearch {
 public:
  TourSearch(const DistanceMatrix& distances, Route& tour)
      : d_(distances),
        tour_(tour),
        position_(static_cast<size_t>(distances.size())),
        waits_(static_cast<size_t>(distances.size())) {
    for (size_t i = 0; i < tour_.size(); ++i) position_[size_t(tour_[i])] = int64_t(i);
  }

  // Until nothing can be improved at the nodes that wait.
  void improve() {
    while (!waiting_.empty()) {
      const int64_t node = waiting_.back();
      waiting_.pop_back();
      waits_[size_t(node)] = false;
      while (two_opt(node) || or_opt(node)) {
      }
    }
  }
  // Until nothing can be improved anywhere. An Or-opt move has three edges, and improve() does not look from
  // all of them, so all nodes are examined again after the last gain.
  void improve_everywhere() {
    do {
      moves_ = 0;
      for (const int64_t node : tour_) examine(node);
      improve();
    } while (moves_ > 0);
  }

  void examine(int64_t node) {
    if (waits_[size_t(node)]) return;
    waits_[size_t(node)] = true;
    waiting_.push_back(node);
  }

 private:
  int64_t size() const { return int64_t(tour_.size()); }
  int64_t next(int64_t node) const {
    const int64_t p = position_[size_t(node)] + 1;
    return tour_[size_t(p == size() ? 0 : p)];
  }
  int64_t previous(int64_t node) const {
    const int64_t p = position_[size_t(node)];
    return tour_[size_t(p == 0 ? size() - 1 : p - 1)];
  }

  // Reverses the path from `first` to `last` in the tour's direction.
  void reverse(int64_t first, int64_t last) {
    int64_t i = position_[size_t(first)], j = position_[size_t(last)];
    const int64_t nodes = j - i + 1 + (j < i ? size() : 0);
    for (int64_t swap = 0; swap < nodes / 2; ++swap) {
      std::swap(tour_[size_t(i)], tour_[size_t(j)]);
      position_[size_t(tour_[size_t(i)])] = i;
      position_[size_t(tour_[size_t(j)])] = j;
      i = i + 1 == size() ? 0 : i + 1;
      j = j == 0 ? size() - 1 : j - 1;
    }
  }

  // The best move that replaces the edge from a to its next or previous node and one other.
  bool two_opt(int64_t a) {
    if (size() < 4) return false;
    double best = least_gain_;
    int64_t with = -1;
    bool forward = true;
    const int64_t b = next(a), z = previous(a);
    for (const int64_t c : tour_) {
      if (c == a) continue;
      const double ac = d_(a, c);
      if (const double gain = d_(a, b) + d_(c, next(c)) - ac - d_(b, next(c)); gain > best)
        best = gain, with = c, forward = true;
      if (const double gain = d_(z, a) + d_(previous(c), c) - ac - d_(z, previous(c)); gain > best)
        best = gain, with = c, forward = false;
    }
    if (with < 0) return false;
    const std::array<int64_t, 4> ends = {a, with, forward ? b : z, forward ? next(with) : previous(with)};
    forward ? reverse(b, with) : reverse(a, previous(with));
    for (const int64_t node : ends) examine(node);
    ++moves_;
    return true;
  }

  // The best move of one to three nodes, of which a is the first or the last, to between two others.
  bool or_opt(int64_t a) {
    double best = least_gain_;
    int64_t first = -1, last = -1, before = -1;
    bool turned = false;
    for (const bool leads : {true, false}) {
      int64_t s = a, e = a;
      for (int64_t nodes = 1; nodes <= 3 && nodes + 3 <= size(); ++nodes) {
        if (nodes > 1) leads ? (e = next(e)) : (s = previous(s));
        const int64_t p = previous(s), n = next(e);
        const double freed = d_(p, s) + d_(e, n) - d_(p, n);
        for (int64_t c = n; c != p; c = next(c)) {
          const int64_t d = next(c);
          const double room = freed + d_(c, d);
          const double straight = room - d_(c, s) - d_(e, d), reversed = room - d_(c, e) - d_(s, d);
          if (std::max(straight, reversed) <= best) continue;
          best = std::max(straight, reversed);
          first = s, last = e, before = c, turned = reversed > straight;
        }
      }
    }
    if (first < 0) return false;
    const int64_t p = previous(first), n = next(last), d = next(before);
    // p [first..last] [n..before] d becomes p [n..before] [last..first] d.
    reverse(first, before);
    reverse(before, n);
    if (!turned) reverse(last, first);
    for (const int64_t node : {p, first, last, n, before, d}) examine(node);
    ++moves_;
    return true;
  }

  const DistanceMatrix& d_;
  const double least_gain_ = kLeastGain * d_.largest();
  Route& tour_;
  std::vector<int64_t> position_, waiting_;
  std::vector<char> waits_;
  int64_t moves_ = 0;
};

double tour_length(const DistanceMatrix& d, const Route& tour) {
  double sum = d(tour.back(), tour.front());
  for (size_t i = 1; i < tour.size(); ++i) sum += d(tour[i - 1], tour[i]);
  return sum;
}

Routes search_tour(const RoutingInstance& instance, int64_t rounds, Random& random) {
  const DistanceMatrix d(instance);
  Route tour = nearest_neighbour(instance)[0];
  two_opt_or_opt(d, tour);
  double shortest = tour_length(d, tour);
  const int64_t n = instance.size();
  for (int64_t round = 0; round < rounds && n >= 8; ++round) {
    // A double bridge: A B C D become A C B D, which no 2-opt move undoes. B and C are short, so that the
    // change is a local one.
    std::array<int64_t, 3> cut;
    cut[0] = 1 + random.below(n - 3);
    cut[1] = cut[0] + 1 + random.below(std::min<int64_t>(30, n - cut[0] - 2));
    cut[2] = cut[1] + 1 + random.below(std::min<int64_t>(30, n - cut[1] - 1));
    Route kicked = tour;
    std::rotate(kicked.begin() + cut[0], kicked.begin() + cut[1], kicked.begin() + cut[2]);
    TourSearch search(d, kicked);
    for (const int64_t at : {cut[0], cut[0] + cut[2] - cut[1], cut[2]}) {
      const int64_t left = kicked[size_t(at - 1)], right = kicked[size_t(at % n)];
      search.examine(left);
      search.examine(right);
    }
    search.improve();
    if (const double now = tour_length(d, kicked); now <= shortest) shortest = now, tour = kicked;
  }
  two_opt_or_opt(d, tour);
  return {tour};
}

// Routes of a CVRP with their loads.
class Ruins {
 public:
  Ruins(const RoutingInstance& instance, const DistanceMatrix& distances)
      : instance_(instance), d_(distances), near_(instance.nodes.size()) {
    for (size_t a = 1; a < near_.size(); ++a) {
      near_[a].resize(near_.size() - 1);
      std::iota(near_[a].begin(), near_[a].end(), 1);
      const size_t kept = std::min<size_t>(near_[a].size(), kMostRemoved);
      std::partial_sort(near_[a].begin(), near_[a].begin() + int64_t(kept), near_[a].end(),
                        [&](int64_t x, int64_t y) { return d_(int64_t(a), x) < d_(int64_t(a), y); });
      near_[a].resize(kept);
    }
  }

  double length(const Routes& routes) const { return data::length(instance_, routes); }

  // Removes a customer and the ones nearest to it, puts them back in random order, and shortens what changed.
  void rebuild(Routes& routes, Random& random) const {
    const int64_t centre = 1 + random.below(instance_.size() - 1);
    const auto& near = near_[size_t(centre)];
    const size_t count = std::min(near.size(), size_t(2 + random.below(kMostRemoved - 1)));
    Route removed(near.begin(), near.begin() + int64_t(count));
    std::vector<char> changed(routes.size());
    for (size_t i = 0; i < routes.size(); ++i)
      changed[i] = std::erase_if(routes[i], [&](int64_t node) {
                     return std::find(removed.begin(), removed.end(), node) != removed.end();
                   }) > 0;
    for (size_t i = removed.size(); i > 1; --i)
      std::swap(removed[i - 1], removed[size_t(random.below(int64_t(i)))]);
    for (const int64_t node : removed) insert(routes, changed, node);
    for (size_t i = 0; i < routes.size(); ++i)
      if (changed[i]) shorten(routes[i]);
    std::erase_if(routes, [](const Route& route) { return route.empty(); });
  }
  void shorten(Route& route) const {
    if (route.size() < 2) return;
    Route tour = {0};
    tour.insert(tour.end(), route.begin(), route.end());
    two_opt_or_opt(d_, tour);
    const auto depot = std::find(tour.begin(), tour.end(), 0);
    std::rotate(tour.begin(), depot, tour.end());
    route.assign(tour.begin() + 1, tour.end());
  }

 private:
  static constexpr int64_t kMostRemoved = 12;

  void insert(Routes& routes, std::vector<char>& changed, int64_t node) const {
    double least = 2 * d_(0, node);  // a route of its own
    size_t into = routes.size(), at = 0;
    for (size_t i = 0; i < routes.size(); ++i) {
      const Route& route = routes[i];
      if (load(instance_, route) + instance_.demands[size_t(node)] > instance_.capacity) continue;
      for (size_t k = 0; k <= route.size(); ++k) {
        const int64_t before = k == 0 ? 0 : route[k - 1], after = k == route.size() ? 0 : route[k];
        const double cost = d_(before, node) + d_(node, after) - d_(before, after);
        if (cost < least) least = cost, into = i, at = k;
      }
    }
    if (into == routes.size()) {
      routes.emplace_back();
      changed.push_back(true);
    }
    routes[into].insert(routes[into].begin() + int64_t(at), node);
    changed[into] = true;
  }

  const RoutingInstance& instance_;
  const DistanceMatrix& d_;
  std::vector<Route> near_;  // the customers nearest to each, itself the first
};

Routes search_routes(const RoutingInstance& instance, int64_t rounds, Random& random) {
  const DistanceMatrix d(instance);
  const Ruins ruins(instance, d);
  Routes best = savings(instance);
  for (Route& route : best) ruins.shorten(route);
  Routes current = best;
  double shortest = ruins.length(best);
  for (int64_t round = 0; round < rounds; ++round) {
    Routes changed = current;
    ruins.rebuild(changed, random);
    const double now = ruins.length(changed);
    const double share_left = 1 - double(round) / double(rounds);
    if (now < shortest * (1 + 0.03 * share_left)) current = changed;  // up to 3 % longer at first
    if (now < shortest) shortest = now, best = changed;
  }
  return best;
}

}  // namespace

DistanceMatrix::DistanceMatrix(const RoutingInstance& instance) : size_(instance.size()) {
  if (size_ > 10'000)
    fail("routing", "local search of " + std::to_string(size_) + " nodes, at most 10000 fit the memory");
  values_.reserve(size_t(size_ * size_));
  for (int64_t a = 0; a < size_; ++a)
    for (int64_t b = 0; b < size_; ++b) {
      values_.push_back(instance.distance(a, b));
      largest_ = std::max(largest_, values_.back());
    }
}

void two_opt_or_opt(const DistanceMatrix& distances, Route& tour) {
  TourSearch(distances, tour).improve_everywhere();
}

Routes local_search(const RoutingInstance& instance, int64_t rounds, Random& random) {
  return instance.has_depot() ? search_routes(instance, rounds, random)
                              : search_tour(instance, rounds, random);
}

}  // namespace pursuit::data
