#include "nn/routing/lehd.h"

namespace pursuit::nn {

namespace {

const LehdConfig& checked(const LehdConfig& c) {
  check(c.sizes);
  if (c.layers < 1) fail("lehd", "got " + std::to_string(c.layers) + " decoder layers, need at least 1");
  return c;
}

}  // namespace

Lehd::Lehd(const LehdConfig& config)
    : config_(checked(config)),
      embed_(config.depot ? 3 : 2, config.sizes.dim),
      encoder_(config.sizes),
      destination_(config.sizes.dim + config.depot, config.sizes.dim),
      current_(config.sizes.dim + config.depot, config.sizes.dim),
      out_(config.sizes.dim, config.depot ? 2 : 1) {
  add_module("embed", embed_);
  add_module("encoder", encoder_);
  add_module("destination", destination_);
  add_module("current", current_);
  for (int64_t i = 0; i < config.layers; ++i) {
    decoder_.push_back(std::make_unique<NodeLayer>(config.sizes));
    add_module("decoder." + std::to_string(i), *decoder_.back());
  }
  add_module("out", out_);
}

Tensor Lehd::encode(const Tensor& nodes) const {
  const int64_t features = config_.depot ? 3 : 2;
  if (nodes.ndim() != 3 || nodes.size(2) != features)
    fail("lehd", "got nodes " + nodes.str() + ", need [B, N, " + std::to_string(features) + "]");
  return encoder_(embed_(nodes));
}

Tensor Lehd::decode(const Tensor& destination, const Tensor& remaining, const Tensor& current,
                    const Tensor& load) const {
  if (load.defined() != config_.depot) fail("lehd", "a load belongs to a CVRP, and to nothing else");
  const auto with_load = [&](const Tensor& row) { return config_.depot ? concat({row, load}, 2) : row; };
  Tensor z = concat({destination_(with_load(destination)), remaining, current_(with_load(current))}, 1);
  for (const auto& layer : decoder_) z = (*layer)(z);
  const int64_t batch = remaining.size(0), m = remaining.size(1);
  const Tensor logits = out_(z.slice(1, 1, 1 + m));  // [B, m, 1 or 2]
  return logits.permute({0, 2, 1}).reshape({batch, logits.size(2) * m});
}

Tensor Lehd::step_logits(const Tensor& nodes, int64_t step, const Tensor& load) const {
  const int64_t last = nodes.size(1) - 1, at_destination = config_.depot ? 0 : last;
  const int64_t end = config_.depot ? last + 1 : last;
  if (step < (config_.depot ? 1 : 0) || step + 1 >= end)
    fail("lehd",
         "got step " + std::to_string(step) + " of nodes " + nodes.str() + ", after which none remains");
  const Tensor rows = encode(nodes);
  return decode(rows.slice(1, at_destination, at_destination + 1), rows.slice(1, step + 1, end),
                rows.slice(1, step, step + 1), load);
}

}  // namespace pursuit::nn
