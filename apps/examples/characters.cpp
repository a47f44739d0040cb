// A transformer learns to continue text, character by character.
#include <cstdio>

#include "apps/command/command_line.h"
#include "data/text/grammar.h"
#include "engine/base/random.h"
#include "nn/attention/attention.h"
#include "nn/init.h"
#include "nn/optim.h"
#include "nn/sequential.h"

using namespace pursuit;

constexpr int64_t context = 64, width = 64, heads = 4, bytes = 256, steps = 600;

struct Block : nn::Callable<Block> {
  nn::LayerNorm norm1{width}, norm2{width};
  nn::Attention attention{width, heads, {.causal = true}};
  nn::Mlp mlp{width, 4 * width};
  Block() {
    add_module("norm1", norm1), add_module("attention", attention);
    add_module("norm2", norm2), add_module("mlp", mlp);
  }
  Tensor forward(const Tensor& x) const {
    const Tensor y = attention(norm1(x), /*residual*/ x);
    return mlp(norm2(y), /*residual*/ y);
  }
};

struct Model : nn::Callable<Model> {
  Tensor characters, positions;
  nn::Sequential blocks;
  Model() {
    add_parameter("characters", characters, {bytes, width}, {nn::Role::embedding});
    add_parameter("positions", positions, {context, width}, {nn::Role::embedding});
    blocks.add<Block>().add<Block>().add<nn::LayerNorm>(width).add<nn::Linear>(width, bytes);
    add_module("blocks", blocks);
  }
  Tensor forward(const Tensor& ids) const {  // [B, N] to logits [B, N, bytes]
    return blocks(embedding(ids, characters) + positions.slice(0, 0, ids.size(1)));
  }
};

// The mean loss of predicting every character of `rows` pieces of the text from those before it.
Tensor loss_of(const Model& model, std::string_view text, int64_t rows, Random& random) {
  std::vector<int64_t> piece;
  for (int64_t r = 0; r < rows; ++r)
    for (const char c : text.substr(random.below(text.size() - context), context + 1)) piece.push_back(c);
  const Tensor ids = from_vector(piece, {rows, context + 1});
  const Tensor logits = model(ids.slice(1, 0, context));
  return cross_entropy(logits.reshape({-1, bytes}), ids.slice(1, 1, context + 1).reshape({-1}));
}

void learn(uint64_t seed) {
  const data::TextSource source = data::grammar_text();  // stories of who gave what to whom
  Model model;
  nn::initialise(model, nn::Init::gpt2, seed);
  nn::FlatParameters parameters(model);
  nn::Optimizer optimizer(parameters);
  Random random(seed, 1);
  for (int64_t step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    loss_of(model, source.train[0].text, 32, random).backward();
    optimizer.step(3e-3 * std::min(step / 20.0, 1.0 - double(step) / steps));  // up, then down to 0
  }
  NoGrad off;
  std::string story = "anna";
  while (int64_t(story.size()) < context) {
    const std::vector<int64_t> ids(story.begin(), story.end());
    story += char(argmax(model(from_vector(ids, {1, int64_t(ids.size())}))[0][-1]).item());
  }
  const data::GrammarFacts facts = data::grammar_facts();
  std::printf("%s...\nloss %.3f nats a character; no model gets below %.3f\n", story.c_str(),
              loss_of(model, source.valid[0].text, 200, random).item(), facts.nats / facts.bytes);
}

int main(int argc, char** argv) {
  return apps::run_with_seed(argc, argv, "A transformer learns to continue text, character by character",
                             learn);
}
