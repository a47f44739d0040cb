#include "nn/routing/pomo.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace pursuit::nn {

namespace {

const PomoConfig& checked(const PomoConfig& c) {
  check(c.sizes);
  if (c.layers < 1) fail("pomo", "got " + std::to_string(c.layers) + " encoder layers, need at least 1");
  return c;
}

// Of a row of log probabilities a node that is not hidden, also where they are not numbers.
int64_t drawn_from(const float* log_p, const float* hidden, int64_t nodes, double u) {
  int64_t last = -1;
  for (int64_t j = 0; j < nodes; ++j) {
    if (hidden[j] != 0) continue;
    last = j;
    if ((u -= std::exp(double(log_p[j]))) < 0) break;
  }
  return last;  // the last one also where rounding leaves a rest of u
}
int64_t largest_of(const float* log_p, const float* hidden, int64_t nodes) {
  int64_t best = -1;
  for (int64_t j = 0; j < nodes; ++j)
    if (hidden[j] == 0 && (best < 0 || log_p[j] > log_p[best])) best = j;
  return best;
}

// Of rows [x, y, ...] `stride` apart.
double closed_length(const float* xy, int64_t stride, const std::vector<int64_t>& order) {
  double sum = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const float *a = xy + stride * order[i], *b = xy + stride * order[i + 1 == order.size() ? 0 : i + 1];
    sum += std::hypot(double(a[0]) - double(b[0]), double(a[1]) - double(b[1]));
  }
  return sum;
}

}  // namespace

Pomo::Pomo(const PomoConfig& config)
    : config_(checked(config)),
      embed_(config.depot ? 3 : 2, config.sizes.dim),
      last_(config.sizes.dim + config.depot, config.sizes.dim, false),
      keys_(config.sizes.dim, config.sizes.dim, false),
      values_(config.sizes.dim, config.sizes.dim, false),
      combine_(config.sizes.dim, config.sizes.dim) {
  if (config.depot) add_module("embed_depot", embed_depot_.emplace(2, config.sizes.dim));
  add_module("embed", embed_);
  for (int64_t i = 0; i < config.layers; ++i) {
    encoder_.push_back(std::make_unique<NodeLayer>(config.sizes));
    add_module("encoder." + std::to_string(i), *encoder_.back());
  }
  if (!config.depot) add_module("first", first_.emplace(config.sizes.dim, config.sizes.dim, false));
  add_module("last", last_);
  add_module("keys", keys_);
  add_module("values", values_);
  add_module("combine", combine_);
}

Pomo::Tours Pomo::construct(const Tensor& nodes, Random* random, const VehicleLoads& loads) const {
  const bool depot = config_.depot;
  const int64_t features = depot ? 3 : 2, least = depot ? 2 : 3;
  if (nodes.ndim() != 3 || nodes.size(1) < least || nodes.size(2) != features || nodes.device() != cpu)
    fail("pomo", "got nodes " + nodes.str() + ", need [B, N, " + std::to_string(features) +
                     "] on the CPU with N at least " + std::to_string(least));
  if (loads.empty() == depot) fail("pomo", "loads belong to a CVRP, and to nothing else");
  const int64_t batch = nodes.size(0), n = nodes.size(1), dim = config_.sizes.dim,
                heads = config_.sizes.heads, d = dim / heads;
  Trajectories ways(batch, n, loads);
  const int64_t starts = ways.per_instance();

  Tensor rows =
      depot ? concat({(*embed_depot_)(nodes.slice(1, 0, 1).slice(2, 0, 2)), embed_(nodes.slice(1, 1, n))}, 1)
            : embed_(nodes);
  for (const auto& layer : encoder_) rows = (*layer)(rows);
  // All projections are of nodes, so they are made once: the query of a step is the sum of two of them (CVRP:
  // of one and of the free share times its column), and the output projection moves to the nodes' side of the
  // score, <W a + b, h> = <a, W^T h> + <b, h>.
  const Tensor first = depot ? Tensor() : (*first_)(rows);
  const Tensor last = linear(rows, last_.weight.slice(1, 0, dim)).reshape({batch * n, dim});
  const Tensor of_share = depot ? last_.weight.slice(1, dim, dim + 1).reshape({1, dim}) : Tensor();
  const Tensor keys_and_values = concat({keys_(rows), values_(rows)}, 2).reshape({batch, n, 2, heads, d});
  const double scale = 1 / std::sqrt(double(dim));
  const Tensor targets =
      (matmul(rows, combine_.weight) * scale).permute({0, 2, 1}).contiguous();  // [B, dim, N]
  const Tensor shift = (matmul(rows, combine_.bias.reshape({dim, 1})) * scale).permute({0, 2, 1});

  Tours tours{batch, starts, {}, {}, zeros({batch, starts})};
  std::vector<int64_t> ids(size_t(ways.size()));
  std::vector<float> shares(ids.size());
  while (!ways.finished()) {
    if (ways.forced()) {  // with probability 1
      for (int64_t t = 0; t < ways.size(); ++t) ways.visit(t, ways.first_open(t));
      continue;
    }
    for (int64_t t = 0; t < ways.size(); ++t) {
      ids[size_t(t)] = ways.instance(t) * n + ways.at(t);
      if (depot) shares[size_t(t)] = ways.free(t);
    }
    const Tensor added = depot ? matmul(from_vector(shares, {batch, starts, 1}), of_share) : first;
    const Tensor query = added + embedding(from_vector(ids, {batch, starts}), last);
    const Tensor mask = from_vector(ways.hidden(), {batch, starts, n});
    const Tensor mixed = cross_attention(query.reshape({batch, starts, heads, d}), keys_and_values, mask);
    const Tensor compatible = matmul(mixed, targets) + shift;
    const Tensor log_p = log_softmax(tanh(compatible) * config_.clip + mask);
    const float* p = log_p.data<float>();
    std::vector<int64_t> chosen;
    for (int64_t t = 0; t < ways.size(); ++t) {
      const float *row = p + t * n, *hidden = ways.hidden().data() + t * n;
      chosen.push_back(random ? drawn_from(row, hidden, n, random->uniform()) : largest_of(row, hidden, n));
      ways.visit(t, chosen.back());
    }
    tours.log_probability =
        tours.log_probability +
        gather(log_p, 2, from_vector(chosen, {batch, starts, 1})).reshape({batch, starts});
  }
  const Tensor points = nodes.contiguous();
  for (int64_t t = 0; t < ways.size(); ++t) {
    tours.orders.push_back(ways.order(t));
    tours.lengths.push_back(
        closed_length(points.data<float>() + ways.instance(t) * n * features, features, tours.orders.back()));
  }
  return tours;
}

Tensor Pomo::loss(const Tours& tours) {
  std::vector<float> advantage;
  for (int64_t b = 0; b < tours.batch; ++b) {
    const auto begin = tours.lengths.begin() + b * tours.starts, end = begin + tours.starts;
    const double mean = std::accumulate(begin, end, 0.0) / double(tours.starts);
    for (auto length = begin; length != end; ++length) advantage.push_back(float(*length - mean));
  }
  return mean(tours.log_probability * from_vector(advantage, {tours.batch, tours.starts}));
}

Tensor eight_symmetries(const Tensor& nodes) {
  const Tensor x = nodes.slice(2, 0, 1), y = nodes.slice(2, 1, 2), rest = nodes.slice(2, 2, nodes.size(2));
  std::vector<Tensor> all;
  for (const auto& [a, b] : {std::pair{x, y}, {y, x}})
    for (const auto& [u, v] : {std::pair{a, b}, {a, 1 - b}, {1 - a, b}, {1 - a, 1 - b}})
      all.push_back(concat({u, v, rest}, 2));
  return concat(all, 0);
}

}  // namespace pursuit::nn
