#include <cmath>

#include "engine/ops.h"
#include "nn/attention/functions.h"
#include "tests/goldens/cases.h"

// Files store every part as [B, H, N, D]; the engine takes [B, N, parts, H, D] and returns [B, N, H * D].
namespace pursuit::goldens {

namespace {

Tensor pack(const std::vector<Tensor>& parts) {
  for (const Tensor& t : parts)
    if (t.ndim() != 4) fail("goldens", "got " + t.str() + ", need [B, H, N, D]");
  return stack(parts, 0).permute({1, 3, 0, 2, 4});
}

Tensor by_heads(const Tensor& x, const Tensor& like) {
  return x.reshape({like.size(0), like.size(2), like.size(1), like.size(3)}).permute({0, 2, 1, 3});
}

// 1 where query i attends to key j.
Tensor visible(int64_t n, const Tensor& like) {
  std::vector<float> mask(size_t(n * n), 1);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = i + 1; j < n; ++j) mask[size_t(i * n + j)] = 0;
  return from_vector(mask, {n, n}).to(like.dtype()).to(like.device());
}

struct Parts {
  Tensor q, k, v;
  std::vector<Tensor> list;
};

Parts read_parts(Golden& g, bool symmetric) {
  Parts p;
  if (!symmetric) p.q = g.input("q");
  p.k = g.input("k");
  p.v = g.input("v");
  p.list = symmetric ? std::vector{p.k, p.v} : std::vector{p.q, p.k, p.v};
  if (symmetric) p.q = p.k;
  return p;
}

AttentionOptions read_options(const Golden& g) {
  return {.scale = g.number("scale"), .causal = g.has_attribute("causal") && g.flag("causal")};
}

// The probabilities, computed by plain operators since the fused operator does not store them.
Tensor probabilities(const Parts& p, const AttentionOptions& o) {
  NoGrad off;
  Tensor scores = matmul(p.q, p.k.transpose(-1, -2)) * o.scale;
  if (!o.causal) return clipped_softmax(scores, o.gamma, o.zeta);
  const Tensor seen = visible(p.k.size(2), p.k);
  // 0 where visible, -1e30 elsewhere: softmax gives exactly 0 there.
  scores = scores + affine(seen, 1e30, -1e30);
  return clipped_softmax(scores, o.gamma, o.zeta) * seen;
}

void run_attention(Golden& g, bool symmetric, const AttentionOptions& options) {
  const Parts p = read_parts(g, symmetric);
  g.output("x", by_heads(attention(pack(p.list), options), p.k));
  g.output("p", probabilities(p, options));
}

}  // namespace

void attention_case(Golden& g) { run_attention(g, g.flag("symmetric"), read_options(g)); }

void clipped_softmax_case(Golden& g) {
  g.output("p", clipped_softmax(g.input("x"), g.number("gamma"), g.number("zeta")));
}

void clipped_attention_case(Golden& g) {
  AttentionOptions options = read_options(g);
  options.gamma = g.number("gamma");
  options.zeta = g.number("zeta");
  run_attention(g, g.has_attribute("symmetric") && g.flag("symmetric"), options);
}

void gated_attention_case(Golden& g) {
  const Parts p = read_parts(g, false);
  const Tensor h = g.input("h"), weight = g.input("gate_weight"), bias = g.input("gate_bias");
  g.output("x", by_heads(nn::gated_attention(pack(p.list), h, weight, bias, read_options(g)), p.k));
  NoGrad off;
  g.output("gate", nn::attention_gate(h, weight, bias));
}

void scaled_attention_case(Golden& g) {
  const std::string& name = g.word("variant");
  using Variant = nn::ScaledVariant;
  Variant variant;
  if (name == "S")
    variant = Variant::s;
  else if (name == "alpha")
    variant = Variant::alpha;
  else if (name == "alpha_asym")
    variant = Variant::alpha_asym;
  else if (name == "alpha_sym")
    variant = Variant::alpha_sym;
  else
    fail("goldens", "unknown variant '" + name + "'");
  const Parts p = read_parts(g, variant == Variant::alpha_sym);
  const Tensor s = g.input(variant == Variant::s ? "s" : "alpha");
  g.output("x", by_heads(nn::scaled_attention(pack(p.list), variant, s, read_options(g)), p.k));
}

void rpc_attention_case(Golden& g) {
  g.expect_kinks();
  const Parts p = read_parts(g, !g.has("in.q"));
  const Tensor& k = p.k;
  const int64_t width = k.size(1) * k.size(3);
  RpcOptions options;
  options.iterations = int(g.integer("n"));
  options.lambda = g.number("lambda");
  options.scale = g.number("scale");
  options.causal = g.flag("causal");
  if (g.has_attribute("C") && g.integer("C") != width)
    fail("goldens", "C is " + g.word("C") + ", need H * D = " + std::to_string(width));
  Tensor mu;
  if (g.word("mu") == "given") {
    mu = g.constant("mu").reshape({k.size(0), k.size(1)});
  } else if (g.word("mu") == "from_k") {
    NoGrad off;
    const Tensor l1 = sum(abs(k.detach()), {2, 3}, true);
    g.compare_if_there("mid.mu", full({1}, double(k.size(2) * width) / 4, k.dtype(), k.device()) / l1);
  } else {
    fail("goldens", "mu is '" + g.word("mu") + "', known are from_k and given");
  }
  g.output("x", by_heads(rpc_attention(pack(p.list), options, mu), k));
}

}  // namespace pursuit::goldens
