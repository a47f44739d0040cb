#include <cmath>

#include "engine/driver/arrangement.h"
#include "engine/driver/driver.h"
#include "engine/ops.h"
#include "engine/solve/gradcheck.h"

namespace pursuit::driver {

namespace {

using Case = OperatorInfo::Case;

// The operator as a function of the inputs that require a gradient; the others are constant.
std::function<Tensor(const std::vector<Tensor>&)> function_of(const Case& c, const OperatorInfo::Run& run,
                                                              std::vector<Tensor>& variables) {
  std::vector<Tensor> all;
  std::vector<size_t> which;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const Input& in = c.inputs[i];
    all.push_back(in.given ? draw(in, Arrangement::contiguous, DType::f64, i) : Tensor());
    if (!in.given || in.integer || in.constant) continue;
    which.push_back(i);
    variables.push_back(all.back());
  }
  return [run, all, which](const std::vector<Tensor>& given) {
    std::vector<Tensor> inputs = all;
    for (size_t k = 0; k < which.size(); ++k) inputs[which[k]] = given[k];
    return run(inputs).to(DType::f64);
  };
}

std::vector<double> tape_gradient(const Case& c, const OperatorInfo::Run& run) {
  std::vector<Tensor> variables;
  const auto f = function_of(c, run, variables);
  for (Tensor& v : variables) v.requires_grad();
  const Tensor y = f(variables);
  if (y.needs_grad()) y.backward(uniform(y.shape(), -1, 1, 0, 1, DType::f64));
  std::vector<double> all;
  for (const Tensor& v : variables)
    for (double g : v.grad().defined() ? v.grad().to_vector() : std::vector<double>(size_t(v.numel()), 0.0))
      all.push_back(g);
  return all;
}

// An operator may detach a part of its computation, which central differences cannot take into account. Its
// reference, composed of operators that are checked themselves, does.
bool agrees_with_reference(const Case& c) {
  if (!c.reference) return false;
  const std::vector<double> got = tape_gradient(c, c.run), want = tape_gradient(c, c.reference);
  double largest = 0;
  for (double w : want) largest = std::max(largest, std::fabs(w));
  for (size_t i = 0; i < want.size(); ++i)
    if (!(std::fabs(got[i] - want[i]) <= 1e-10 * largest)) return false;
  return !want.empty();
}

bool has_elements(const Case& c) {
  for (const Input& in : c.inputs)
    if (in.given && in.shape.numel() == 0) return false;
  return true;
}

}  // namespace

Report check_gradients(const OperatorInfo& op, int64_t elements) {
  Report report{op.name, 0, 0, 0, {}};
  bool differentiable = false;
  const std::vector<Case> cases = op.cases();
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    if (!has_elements(c)) continue;
    ++report.samples;
    try {
      std::vector<Tensor> variables;
      const auto f = function_of(c, c.run, variables);
      if (variables.empty()) continue;
      GradientOptions options;
      options.max_elements = elements;
      // A result rounded to f32 needs a step larger than the rounding.
      std::vector<Tensor> inputs;
      for (const Input& in : c.inputs)
        inputs.push_back(in.given ? draw(in, Arrangement::contiguous, DType::f64, inputs.size()) : Tensor());
      const DType result = c.run(inputs).dtype();
      if (!is_floating(result)) continue;
      differentiable = true;
      if (result != DType::f64) options.eps = 1e-2;
      const GradientReport r = check_gradient(f, variables, options);
      report.compared += r.compared;
      if (!r.ok && agrees_with_reference(c)) continue;
      report.worst = std::max(report.worst, r.worst);
      if (!r.ok) report.failures.push_back("sample " + std::to_string(i) + ": " + r.message);
    } catch (const std::exception& e) {
      report.failures.push_back("sample " + std::to_string(i) + ": " + e.what());
    }
  }
  if (differentiable && report.compared == 0 && report.ok())
    report.failures.push_back("nothing was compared");
  if (report.samples == 0) report.failures.push_back("no sample has an element");
  return report;
}

}  // namespace pursuit::driver
