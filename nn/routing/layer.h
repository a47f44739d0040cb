#pragma once
#include <optional>
#include <string>

#include "engine/base/choice.h"
#include "nn/layers.h"
#include "nn/norms.h"

namespace pursuit::nn {

// What normalises the rows after each of a layer's two sums.
enum class NodeNormKind { none, batch, instance };
inline std::vector<Choice<NodeNormKind>> choices_of(NodeNormKind) {
  return {{"none", NodeNormKind::none},
          {"batch", NodeNormKind::batch, "per feature over all nodes of the batch"},
          {"instance", NodeNormKind::instance, "per feature over the nodes of an instance"}};
}

// Sizes that LEHD and POMO share.
struct RoutingSizes {
  int64_t dim = 128, heads = 8, hidden = 512;
  NodeNormKind norm = NodeNormKind::none;
};
// Throws Error unless heads divide dim and all are positive.
void check(const RoutingSizes& sizes);

// Normalises x [B, N, dim] as POMO does: biased variance, eps 1e-5, affine; batch norm with running
// statistics of momentum 0.1.
class NodeNorm : public Callable<NodeNorm> {
 public:
  NodeNorm(NodeNormKind kind, int64_t dim);
  Tensor forward(const Tensor& x) const;

 private:
  std::optional<BatchNorm2d> batch_;
  std::optional<InstanceNorm2d> instance_;
};

// Attention among nodes, without mask or positions (Kool et al. 2019; Luo et al. 2023): x [B, N, dim] to h2,
//
//   h1 = norm(x + W_o attention(x W_q, x W_k, x W_v) + b_o)      h2 = norm(h1 + W_2 relu(W_1 h1 + b_1) + b_2)
class NodeLayer : public Callable<NodeLayer> {
 public:
  explicit NodeLayer(const RoutingSizes& sizes);
  Tensor forward(const Tensor& x) const;

 private:
  int64_t heads_;
  Linear qkv_, proj_;
  NodeNorm norm1_;
  Mlp mlp_;
  NodeNorm norm2_;
};

}  // namespace pursuit::nn
