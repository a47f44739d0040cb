#include <algorithm>
#include <functional>
#include <memory>

#include "engine/ops.h"
#include "nn/fan.h"
#include "nn/optim.h"
#include "nn/resnet.h"
#include "tests/goldens/cases.h"
#include "tests/nn/picture_nets.h"

namespace pursuit::goldens {

namespace {

void set_state(const Golden& g, nn::Module& model) {
  const std::vector<nn::NamedTensor> state = model.state();
  for (const std::string& name : g.names("param."))
    if (std::none_of(state.begin(), state.end(), [&](const auto& p) { return p.name == name; }))
      fail("goldens", "the model has no tensor '" + name + "'");
  for (const nn::NamedTensor& p : state) {
    const Tensor& values = g.stored("param." + p.name);
    if (values.shape() != p.tensor->shape())
      fail("goldens", "param." + p.name + " is " + values.str() + ", the model has " + p.tensor->str());
    copy_values(p.tensor->detach(), values);
  }
  model.to(g.device());
}

// Logits in evaluation, then a step of SGD in training: logits, loss, gradients as far as the file has them,
// what parameters and running statistics are after it. `left_out`: of which parameters neither is compared.
template <class Net> void compare(
    Golden& g, Net& model,
    const std::function<bool(const std::string&)>& left_out = [](const std::string&) { return false; }) {
  set_state(g, model);
  const Tensor x = g.constant("x"), labels = g.constant("y");
  {
    NoGrad off;
    g.compare("out.evaluated", model(x));
  }
  model.set_training(true);
  nn::FlatParameters flat(model, [](const std::string&, const Tensor&) { return true; });
  nn::OptimizerConfig config;
  config.kind = nn::OptimizerConfig::Kind::sgd;
  config.momentum = g.number("momentum");
  config.nesterov = false;
  config.weight_decay = g.number("weight_decay");
  nn::Optimizer optimizer(flat, config);

  optimizer.zero_grad();
  const Tensor logits = model(x), loss = cross_entropy(logits, labels);
  g.compare("out.logits", logits);
  g.compare("out.loss", loss);
  loss.backward();
  flat.finish_grad();
  for (const nn::NamedTensor& p : model.parameters())
    if (!left_out(p.name)) g.compare_if_there("grad." + p.name, p.tensor->grad());
  optimizer.step(g.number("lr"));
  for (const nn::NamedTensor& p : model.state())
    if (is_floating(p.tensor->dtype()) && !left_out(p.name)) g.compare("after." + p.name, *p.tensor);
}

}  // namespace

void lenet_case(Golden& g) {
  test::LeNet model(g.integer("classes"));
  compare(g, model);
}

void resnet18_case(Golden& g) {
  nn::ResNet model({.classes = g.integer("classes"), .width = g.integer("width")});
  compare(g, model);
}

void resnet50_case(Golden& g) {
  nn::ResNet model({.classes = g.integer("classes"),
                    .blocks = {3, 4, 6, 3},
                    .bottleneck = true,
                    .width = g.integer("width")});
  compare(g, model);
}

void fan_case(Golden& g) {
  nn::FanConfig c{.image = g.integer("image"), .patch = g.integer("patch")};
  c.dim = g.integer("dim");
  c.depth = g.integer("depth");
  c.heads = g.integer("heads");
  c.classes = g.integer("classes");
  c.mlp_ratio = g.number("mlp_ratio");
  c.attention.kind = g.word("kind");
  nn::Fan model(c);
  // Under bf16 entries cross the soft thresholds of the first block, and gradients before them jump.
  const bool jumps = c.attention.kind == "rpc" && g.dtype() == DType::bf16;
  compare(g, model, [&](const std::string& name) {
    return jumps && (name.starts_with("patch_embed.") || name.starts_with("pos_embed.") ||
                     name.starts_with("blocks.0.norm1.") || name.starts_with("blocks.0.attn.kv."));
  });
}

}  // namespace pursuit::goldens
