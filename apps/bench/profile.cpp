#include "apps/bench/profile.h"

#include <chrono>

#include "engine/core/observer.h"

namespace pursuit::bench {

StepTimes profile(const std::vector<nn::NamedTensor>& parameters, Device device,
                  const std::function<Tensor()>& forward, const std::function<void()>& update) {
  const auto now = [device] {
    synchronize(device);
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  StepTimes times;
  struct Leaf {
    const Node* node;
    int64_t arrivals;  // before this step
    bool ready = false;
  };
  std::vector<Leaf> leaves;  // in the order of times.gradients
  for (auto p = parameters.rbegin(); p != parameters.rend(); ++p) {
    times.gradients.push_back({p->name, p->tensor->numel(), 0});
    leaves.push_back({p->tensor->node().get(), p->tensor->node()->arrivals});
  }

  const double start = now();
  const Tensor loss = forward();
  const double middle = now();
  double last = middle;  // end of the last operator
  const auto note_arrivals = [&] {
    for (size_t i = 0; i < leaves.size(); ++i)
      if (!leaves[i].ready && leaves[i].node->arrivals > leaves[i].arrivals) {
        times.gradients[i].ready = last - middle;
        leaves[i].ready = true;
      }
  };
  {
    // Runs before the leaves receive an operator's gradients: what has arrived is of the previous operator.
    const Observer of_gradients([&](const Tensor&) {
      note_arrivals();
      last = now();
    });
    loss.backward();
  }
  note_arrivals();
  const double end = now();
  update();
  times.forward = middle - start;
  times.backward = end - middle;
  times.update = now() - end;
  return times;
}

}  // namespace pursuit::bench
