#include <algorithm>
#include <chrono>

#include "engine/driver/arrangement.h"
#include "engine/driver/driver.h"

namespace pursuit::driver {

namespace {

constexpr int least_runs = 20;
constexpr double seconds_an_operator = 0.2;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class F> double median_seconds(Device device, const F& f) {
  std::vector<double> times;
  const double begin = now();
  while (int(times.size()) < least_runs || now() - begin < seconds_an_operator) {
    const double start = now();
    f();
    synchronize(device);
    times.push_back(now() - start);
  }
  std::nth_element(times.begin(), times.begin() + int64_t(times.size()) / 2, times.end());
  return times[times.size() / 2];
}

int64_t elements(const OperatorInfo::Case& c) {
  int64_t n = 0;
  for (const Input& in : c.inputs) n += in.given ? in.shape.numel() : 0;
  return n;
}

}  // namespace

Timing bench(const OperatorInfo& op, Device device, DType dtype) {
  const auto cases = op.cases();
  const auto& c = *std::max_element(cases.begin(), cases.end(),
                                    [](const auto& a, const auto& b) { return elements(a) < elements(b); });
  Timing t;
  t.name = op.name;
  std::vector<Tensor> plain, leaves;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const Input& in = c.inputs[i];
    plain.push_back(in.given ? draw(in, Arrangement::contiguous, dtype, i).to(device) : Tensor());
    if (in.given) t.bytes += plain.back().bytes();
    leaves.push_back(plain.back());
    if (in.given && !in.integer && !in.constant) leaves.back().requires_grad();
  }
  const Tensor y = c.run(plain);
  t.bytes += y.bytes();
  t.forward = median_seconds(device, [&] { c.run(plain); });
  if (!is_floating(y.dtype())) return t;
  const Tensor seed = uniform(y.shape(), -1, 1, 1, 100, y.dtype()).to(y.device());
  t.both = median_seconds(device, [&] {
    for (Tensor& l : leaves)
      if (l.defined()) l.zero_grad();
    const Tensor out = c.run(leaves);
    if (out.needs_grad()) out.backward(seed);
  });
  return t;
}

}  // namespace pursuit::driver
