#include "nn/routing/trajectories.h"

#include <algorithm>
#include <limits>
#include <string>

#include "engine/base/error.h"

namespace pursuit::nn {

namespace {

constexpr float hidden_node = -std::numeric_limits<float>::infinity();

void check(const VehicleLoads& loads, int64_t batch, int64_t nodes) {
  if (loads.empty() && loads.demands.empty()) return;
  if (int64_t(loads.capacities.size()) != batch || int64_t(loads.demands.size()) != batch * nodes)
    fail("pomo", "got " + std::to_string(loads.demands.size()) + " demands and " +
                     std::to_string(loads.capacities.size()) + " capacities, need " +
                     std::to_string(batch * nodes) + " and " + std::to_string(batch));
  for (int64_t i = 0; i < batch * nodes; ++i) {
    const int64_t demand = loads.demands[size_t(i)], capacity = loads.capacities[size_t(i / nodes)];
    if (demand < 0 || demand > (i % nodes ? capacity : 0))
      fail("pomo", "got demand " + std::to_string(demand) + " of node " + std::to_string(i % nodes) +
                       ", need 0 of the depot, and 0 to the capacity " + std::to_string(capacity));
  }
}

}  // namespace

Trajectories::Trajectories(int64_t batch, int64_t nodes, const VehicleLoads& loads)
    : nodes_(nodes), loads_(loads) {
  check(loads, batch, nodes);
  const size_t count = size_t(batch * per_instance());
  open_ = int64_t(count) * nodes;
  orders_.resize(count);
  left_.assign(count, nodes);
  free_.resize(count);
  visited_.resize(count * size_t(nodes));
  hidden_.resize(count * size_t(nodes));
  for (int64_t t = 0; t < size(); ++t) {
    const int64_t i = t % per_instance();
    if (!loads_.empty()) visit(t, 0);
    visit(t, loads_.empty() ? i : i + 1);
  }
}

float Trajectories::free(int64_t t) const {
  return float(double(free_[size_t(t)]) / double(loads_.capacities[size_t(instance(t))]));
}

bool Trajectories::forced() const {
  for (int64_t t = 0; t < size(); ++t) {
    const auto row = hidden_.begin() + t * nodes_;
    if (std::find(row + first_open(t) + 1, row + nodes_, 0.0F) != row + nodes_) return false;
  }
  return true;
}

int64_t Trajectories::first_open(int64_t t) const {
  const auto row = hidden_.begin() + t * nodes_;
  return std::find(row, row + nodes_, 0.0F) - row;
}

void Trajectories::visit(int64_t t, int64_t node) {
  const size_t s = size_t(t), row = s * size_t(nodes_);
  orders_[s].push_back(node);
  if (!visited_[row + size_t(node)]) {
    visited_[row + size_t(node)] = true;
    --left_[s];
    --open_;
  }
  if (loads_.empty()) {
    hidden_[row + size_t(node)] = hidden_node;
    return;
  }
  const int64_t b = instance(t), *demands = loads_.demands.data() + b * nodes_;
  free_[s] = node == 0 ? loads_.capacities[size_t(b)] : free_[s] - demands[node];
  // To the depot from anywhere else, and where nothing is left.
  for (int64_t j = 0; j < nodes_; ++j) {
    const bool may =
        j == 0 ? node != 0 || left_[s] == 0 : !visited_[row + size_t(j)] && demands[j] <= free_[s];
    hidden_[row + size_t(j)] = may ? 0 : hidden_node;
  }
}

}  // namespace pursuit::nn
