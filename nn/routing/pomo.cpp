#include "nn/routing/pomo.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace pursuit::nn {

namespace {

const PomoConfig& checked(const PomoConfig& c) {
  check(c.sizes);
  if (c.layers < 1) fail("pomo", "got " + std::to_string(c.layers) + " encoder layers, need at least 1");
  return c;
}

// Of a row of log probabilities, -inf where the node was visited.
int64_t drawn_from(const float* row, int64_t nodes, double u) {
  int64_t last = -1;
  for (int64_t j = 0; j < nodes; ++j) {
    if (row[j] == -std::numeric_limits<float>::infinity()) continue;
    last = j;
    if ((u -= std::exp(double(row[j]))) < 0) break;
  }
  return last;  // the last one also where rounding leaves a rest of u
}
int64_t largest_of(const float* row, int64_t nodes) { return std::max_element(row, row + nodes) - row; }

double tour_length(const float* xy, const int64_t* order, int64_t nodes) {
  double sum = 0;
  for (int64_t i = 0; i < nodes; ++i) {
    const float *a = xy + 2 * order[i], *b = xy + 2 * order[i + 1 == nodes ? 0 : i + 1];
    sum += std::hypot(double(a[0]) - double(b[0]), double(a[1]) - double(b[1]));
  }
  return sum;
}

}  // namespace

Pomo::Pomo(const PomoConfig& config)
    : config_(checked(config)),
      embed_(2, config.sizes.dim),
      first_(config.sizes.dim, config.sizes.dim, false),
      last_(config.sizes.dim, config.sizes.dim, false),
      keys_(config.sizes.dim, config.sizes.dim, false),
      values_(config.sizes.dim, config.sizes.dim, false),
      combine_(config.sizes.dim, config.sizes.dim) {
  add_module("embed", embed_);
  for (int64_t i = 0; i < config.layers; ++i) {
    encoder_.push_back(std::make_unique<NodeLayer>(config.sizes));
    add_module("encoder." + std::to_string(i), *encoder_.back());
  }
  add_module("first", first_);
  add_module("last", last_);
  add_module("keys", keys_);
  add_module("values", values_);
  add_module("combine", combine_);
}

Pomo::Tours Pomo::construct(const Tensor& nodes, Random* random) const {
  if (nodes.ndim() != 3 || nodes.size(1) < 3 || nodes.size(2) != 2 || nodes.device() != cpu)
    fail("pomo", "got nodes " + nodes.str() + ", need [B, N, 2] on the CPU with N at least 3");
  const int64_t batch = nodes.size(0), n = nodes.size(1), dim = config_.sizes.dim,
                heads = config_.sizes.heads, d = dim / heads;
  Tensor rows = embed_(nodes);
  for (const auto& layer : encoder_) rows = (*layer)(rows);
  const auto by_head = [&](const Tensor& x) { return x.reshape({batch, n, heads, d}).permute({0, 2, 1, 3}); };
  // All projections are of nodes, so they are made once: the query of a step is first + last of two nodes,
  // and the output projection moves to the nodes' side of the score, <W a + b, h> = <a, W^T h> + <b, h>.
  const Tensor first = first_(rows), last = last_(rows).reshape({batch * n, dim});
  const Tensor keys = by_head(keys_(rows)).permute({0, 1, 3, 2}).contiguous();
  const Tensor values = by_head(values_(rows)).contiguous();
  const Tensor targets = matmul(rows, combine_.weight).permute({0, 2, 1}).contiguous();  // [B, dim, N]
  const Tensor shift = matmul(rows, combine_.bias.reshape({dim, 1})).permute({0, 2, 1});

  Tours tours{batch, n, std::vector<int64_t>(size_t(batch * n * n)), {}, {}};
  Tensor visited = zeros({batch, 1, n, n});  // -inf where a trajectory was
  std::vector<int64_t> at(size_t(batch * n));
  std::vector<int64_t> ids(at.size());
  const auto visit = [&](int64_t trajectory, int64_t step, int64_t node) {
    tours.order[size_t(trajectory * n + step)] = node;
    at[size_t(trajectory)] = node;
    ids[size_t(trajectory)] = trajectory / n * n + node;
    visited.data<float>()[trajectory * n + node] = -std::numeric_limits<float>::infinity();
  };
  for (int64_t t = 0; t < batch * n; ++t) visit(t, 0, t % n);
  for (int64_t step = 1; step + 1 < n; ++step) {
    const Tensor query = first + embedding(from_vector(ids, {batch, n}), last);
    const Tensor scores = matmul(by_head(query), keys) * (1 / std::sqrt(double(d)));
    const Tensor mixed =
        matmul(softmax(scores + visited), values).permute({0, 2, 1, 3}).reshape({batch, n, dim});
    const Tensor compatible = (matmul(mixed, targets) + shift) * (1 / std::sqrt(double(dim)));
    const Tensor log_p = log_softmax(tanh(compatible) * config_.clip + visited.reshape({batch, n, n}));
    const float* p = log_p.data<float>();
    for (int64_t t = 0; t < batch * n; ++t)
      visit(t, step, random ? drawn_from(p + t * n, n, random->uniform()) : largest_of(p + t * n, n));
    const Tensor chosen = gather(log_p, 2, from_vector(at, {batch, n, 1})).reshape({batch, n});
    tours.log_probability = step == 1 ? chosen : tours.log_probability + chosen;
  }
  // One node is left, whose probability is 1.
  for (int64_t t = 0; t < batch * n; ++t) {
    const float* row = visited.data<float>() + t * n;
    visit(t, n - 1, std::find(row, row + n, 0.0F) - row);
  }
  const Tensor points = nodes.contiguous();
  for (int64_t t = 0; t < batch * n; ++t)
    tours.lengths.push_back(tour_length(points.data<float>() + t / n * 2 * n, tours.order.data() + t * n, n));
  return tours;
}

Tensor Pomo::loss(const Tours& tours) {
  std::vector<float> advantage;
  for (int64_t b = 0; b < tours.batch; ++b) {
    const auto begin = tours.lengths.begin() + b * tours.nodes, end = begin + tours.nodes;
    const double mean = std::accumulate(begin, end, 0.0) / double(tours.nodes);
    for (auto length = begin; length != end; ++length) advantage.push_back(float(*length - mean));
  }
  return mean(tours.log_probability * from_vector(advantage, {tours.batch, tours.nodes}));
}

Tensor eight_symmetries(const Tensor& nodes) {
  const Tensor x = nodes.slice(2, 0, 1), y = nodes.slice(2, 1, 2);
  std::vector<Tensor> all;
  for (const auto& [a, b] : {std::pair{x, y}, {y, x}})
    for (const auto& [u, v] : {std::pair{a, b}, {a, 1 - b}, {1 - a, b}, {1 - a, 1 - b}})
      all.push_back(concat({u, v}, 2));
  return concat(all, 0);
}

}  // namespace pursuit::nn
