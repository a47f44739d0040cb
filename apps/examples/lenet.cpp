// LeNet-5 tells pictures apart: drawn shapes, or with --data Fashion-MNIST and its like.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "apps/command/command_line.h"
#include "apps/command/options.h"
#include "data/dataset.h"
#include "engine/base/random.h"
#include "engine/program/program.h"
#include "nn/convolution.h"
#include "nn/init.h"
#include "nn/layers.h"
#include "nn/optim.h"
#include "nn/sequential.h"

using namespace pursuit;

constexpr int side = 28;

struct Pictures {
  Tensor pixels;                // [n, side * side], from -0.5 to 0.5
  std::vector<int64_t> labels;  // [n]
};

Pictures read(const std::string& path, data::Split split, int64_t limit) {
  const auto set = data::open_dataset(path, split, {.limit = limit, .synthetic_size = side});
  std::vector<float> pixels;
  Pictures pictures;
  for (int64_t i = 0; i < set->size(); ++i) {
    const data::Sample sample = set->get(i);
    if (sample.image.width != side || sample.image.height != side)
      fail("lenet", set->name(i) + " is no picture of 28 x 28 pixels; give MNIST or Fashion-MNIST by --data");
    for (const uint8_t p : data::to_grey(sample.image).pixels) pixels.push_back(float(p) / 255 - 0.5f);
    pictures.labels.push_back(sample.label);
  }
  pictures.pixels = from_vector(pixels, {set->size(), side * side});
  return pictures;
}

void learn(const std::string& path, uint64_t seed) {
  const Pictures train = read(path, data::Split::train, 6000), test = read(path, data::Split::test, 1000);

  nn::Sequential net;
  net.add([](const Tensor& x) { return x.reshape({-1, 1, side, side}); });
  net.add<nn::Conv2d>(1, 6, 5, ConvOptions{.padding = 2}).add(relu).add<nn::MaxPool2d>(MaxPoolOptions{2});
  net.add<nn::Conv2d>(6, 16, 5).add(relu).add<nn::MaxPool2d>(MaxPoolOptions{2});
  net.add([](const Tensor& x) { return x.reshape({-1, 16 * 5 * 5}); });
  net.add<nn::Linear>(400, 120).add(relu).add<nn::Linear>(120, 84).add(relu).add<nn::Linear>(84, 10);
  nn::initialise(net, nn::Init::pytorch, seed);
  nn::FlatParameters parameters(net);
  nn::Optimizer optimizer(parameters, {.weight_decay = 1e-3});

  Random random(seed, 1);
  constexpr int64_t steps = 500, batch = 64;
  for (int64_t step = 1; step <= steps; ++step) {
    std::vector<int64_t> rows, labels;
    for (int64_t i = 0; i < batch; ++i) {
      rows.push_back(random.below(int64_t(train.labels.size())));
      labels.push_back(train.labels[size_t(rows.back())]);
    }
    optimizer.zero_grad();
    const Tensor images = embedding(from_vector(rows, {batch}), train.pixels);  // these rows of the pixels
    cross_entropy(net(images), from_vector(labels, {batch})).backward();
    optimizer.step(2e-3 * (1 - double(step) / (steps + 1)));
  }
  NoGrad off;
  const Tensor labels = from_vector(test.labels, {int64_t(test.labels.size())});
  std::printf("accuracy %.1f %%\n", 100 * (argmax(net(test.pixels)) == labels).to(DType::f32).mean().item());
}

int main(int argc, char** argv) {
  return run_main(argc, argv, [](const std::vector<std::string>& args) {
    CLI::App app{"LeNet-5 tells pictures apart", "example_lenet"};
    std::string path;
    uint64_t seed = 0;
    app.add_option("--data", path, "Folder with MNIST or Fashion-MNIST (left out: drawn shapes)");
    apps::add_number(app, "--seed", seed, "Seed of the initial weights and the batches", apps::any_seed);
    app.callback([&] { learn(path, seed); });
    return apps::parse(app, args);
  });
}
