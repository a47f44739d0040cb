#include "apps/bench/step_times.h"

#include <map>

namespace pursuit::bench {

namespace {

constexpr double bf16_bytes = 2;
constexpr double adamw_bytes = 28;  // per parameter: reads the gradient; reads and writes it and two moments

double ms(double macs, double bytes) { return (2 * macs / bf16_products + bytes / hbm_bandwidth) * 1e3; }

std::string layer_of(const std::string& parameter) {
  const size_t dot = parameter.rfind('.');
  return dot == parameter.npos ? "" : parameter.substr(0, dot);
}

}  // namespace

Work operator+(const Work& a, const Work& b) {
  return {a.macs + b.macs, a.bytes + b.bytes, a.backward_macs + b.backward_macs,
          a.backward_bytes + b.backward_bytes};
}

Work linear_work(double rows, double in, double out) {
  const double macs = rows * in * out, bytes = rows * (in + out) * bf16_bytes;
  return {macs, bytes, 2 * macs, 2 * bytes};
}

Work pass_work(double rows, double dim) {
  const double bytes = 2 * rows * dim * bf16_bytes;
  return {0, bytes, 0, 2 * bytes};
}

Work attention_work(double rows, double dim, double tokens, double iterations) {
  const double macs = 2 * rows * tokens * dim * iterations, bytes = 4 * rows * dim * bf16_bytes;
  return {macs, bytes, 2.5 * macs, 2 * bytes};
}

StepTimes estimate(const std::vector<nn::NamedTensor>& parameters, double step_ms,
                   const std::function<Work(const std::string&, const std::vector<Shape>&)>& work) {
  StepTimes times;
  double elements = 0;
  std::map<std::string, double> done;  // end of each layer, whose parameters may be apart
  for (auto p = parameters.rbegin(); p != parameters.rend(); ++p) {
    const std::string layer = layer_of(p->name);
    if (!done.contains(layer)) {
      std::vector<Shape> shapes;
      for (const nn::NamedTensor& of_layer : parameters)
        if (layer_of(of_layer.name) == layer) shapes.push_back(of_layer.tensor->shape());
      const Work w = work(layer, shapes);
      times.forward += ms(w.macs, w.bytes);
      times.backward += ms(w.backward_macs, w.backward_bytes);
      done[layer] = times.backward;
    }
    times.gradients.push_back({p->name, p->tensor->numel(), done[layer]});
    elements += double(p->tensor->numel());
  }
  times.update = elements * adamw_bytes / hbm_bandwidth * 1e3;
  const double scale = (step_ms - times.update) / (times.forward + times.backward);
  times.forward *= scale;
  times.backward *= scale;
  for (StepTimes::Gradient& g : times.gradients) g.ready *= scale;
  return times;
}

}  // namespace pursuit::bench
