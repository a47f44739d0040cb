// An MLP learns which arm of a spiral a point is on.
#include <cmath>
#include <cstdio>

#include "apps/command/command_line.h"
#include "engine/base/random.h"
#include "engine/ops.h"
#include "nn/init.h"
#include "nn/layers.h"
#include "nn/optim.h"
#include "nn/sequential.h"

using namespace pursuit;

constexpr int64_t arms = 3;

struct Points {
  Tensor x, arm;  // [n, 2], i64 [n]
};

// Arms that wind once around the origin, with some noise.
Points draw(int64_t n, Random random) {
  std::vector<float> x;
  std::vector<int64_t> arm;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t a = random.below(arms);
    const double radius = std::sqrt(random.uniform()), angle = 2 * M_PI * (radius + double(a) / arms);
    x.push_back(float(radius * std::cos(angle) + 0.02 * random.normal()));
    x.push_back(float(radius * std::sin(angle) + 0.02 * random.normal()));
    arm.push_back(a);
  }
  return {from_vector(x, {n, 2}), from_vector(arm, {n})};
}

double accuracy(const nn::Sequential& net, const Points& points) {
  NoGrad off;
  const Tensor right = argmax(net(points.x)) == points.arm;
  return right.to(DType::f32).mean().item();
}

void learn(uint64_t seed) {
  const Points train = draw(2000, Random(seed, 1)), test = draw(2000, Random(seed, 2));

  nn::Sequential net;
  net.add<nn::Linear>(2, 64).add(relu).add<nn::Linear>(64, 64).add(relu).add<nn::Linear>(64, arms);
  nn::initialise(net, nn::Init::pytorch, seed);
  nn::FlatParameters parameters(net);
  nn::Optimizer optimizer(parameters, {.weight_decay = 0});

  for (int step = 1; step <= 300; ++step) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(net(train.x), train.arm);
    loss.backward();
    optimizer.step(/*learning rate*/ 0.01);
    if (step % 100 == 0) std::printf("step %d: loss %.4f\n", step, loss.item());
  }
  std::printf("accuracy %.2f %%\n", 100 * accuracy(net, test));
}

int main(int argc, char** argv) {
  return apps::run_with_seed(argc, argv, "An MLP learns which arm of a spiral a point is on", learn);
}
