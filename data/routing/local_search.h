#pragma once
#include "data/routing/instance.h"

// Local search: labels for supervised training.
namespace pursuit::data {

// All distances of an instance of at most 10,000 nodes.
class DistanceMatrix {
 public:
  explicit DistanceMatrix(const RoutingInstance& instance);
  double operator()(int64_t a, int64_t b) const { return values_[size_t(a * size_ + b)]; }
  int64_t size() const { return size_; }
  double largest() const { return largest_; }

 private:
  int64_t size_;
  double largest_ = 0;
  std::vector<double> values_;
};

// Shortens a closed tour of some of the nodes until no 2-opt move (a path is reversed) and no Or-opt move (up
// to three nodes move elsewhere, either way round) does.
void two_opt_or_opt(const DistanceMatrix& distances, Route& tour);

// A good solution; the longer the search, the better, and the same for the same random numbers. TSP: 2-opt
// and Or-opt, then `rounds` times a double bridge (Martin, Otto & Felten 1991) repaired by both, and kept
// unless it is longer. CVRP: savings, then `rounds` times some neighbouring customers are removed and put
// back where that costs least (Schrimpf et al. 2000), with 2-opt and Or-opt of the routes. Solutions a little
// longer than the best are accepted, the less the later.
Routes local_search(const RoutingInstance& instance, int64_t rounds, Random& random);

}  // namespace pursuit::data
