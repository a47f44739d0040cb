#include "engine/solve/gradcheck.h"

#include <cmath>
#include <limits>
#include <sstream>

#include "engine/ops.h"

namespace pursuit {

namespace {

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

bool wants_gradient(const Tensor& t) { return t.defined() && is_floating(t.dtype()); }

std::vector<Tensor> private_copies(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> copies;
  for (const Tensor& t : inputs) {
    if (!t.defined()) {
      copies.emplace_back();
      continue;
    }
    Tensor copy = empty(t.shape(), is_floating(t.dtype()) ? DType::f64 : t.dtype());
    copy_values(copy, t.detach());
    copies.push_back(copy);
  }
  return copies;
}

double dot(const Tensor& y, const std::vector<double>& cotangent) {
  const std::vector<double> values = y.to_vector();
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) sum += values[i] * cotangent[i];
  return sum;
}

std::string describe(int input, int64_t element, double numeric, double tape) {
  std::ostringstream text;
  text.precision(9);
  text << "input " << input << ", element " << element << ": central differences give " << numeric
       << ", the tape " << tape;
  return text.str();
}

// Element k of `count` elements spread evenly over 0 .. n-1.
int64_t spread(int64_t k, int64_t count, int64_t n) { return count == 1 ? 0 : k * (n - 1) / (count - 1); }

struct Check {
  const Function& f;
  const GradientOptions& options;
  std::vector<Tensor> inputs;  // f64, owned
  std::vector<double> cotangent;
  GradientReport report;

  bool failed(const std::string& message) {
    report.message = message;
    return false;
  }

  // Runs backward twice, accumulating in buffers that initially hold NaN.
  bool tape_gradients(std::vector<std::vector<double>>& gradients) {
    std::vector<Tensor> leaves = inputs;
    std::vector<Tensor> homes(leaves.size());
    for (size_t i = 0; i < leaves.size(); ++i)
      if (wants_gradient(leaves[i])) {
        homes[i] = full(leaves[i].shape(), std::numeric_limits<double>::quiet_NaN(), DType::f64);
        leaves[i].bind_grad(homes[i]);
      }
    gradients.assign(leaves.size(), {});
    for (int pass = 1; pass <= 2; ++pass) {
      const Tensor y = f(leaves);
      if (y.dtype() != DType::f64 || y.device() != cpu)
        return failed("the function returned " + y.str() + ", need f64 on cpu");
      if (pass == 1 && cotangent.empty())
        cotangent = uniform(y.shape(), -1, 1, options.seed, 1, DType::f64).to_vector();
      if (y.needs_grad()) y.backward(from_vector(cotangent, y.shape()));
      for (size_t i = 0; i < leaves.size(); ++i) {
        if (!wants_gradient(leaves[i])) continue;
        // No gradient reached the leaf: the tape says it is zero.
        const std::vector<double> g = leaves[i].grad().defined()
                                          ? homes[i].to_vector()
                                          : std::vector<double>(size_t(leaves[i].numel()), 0.0);
        if (pass == 1) {
          gradients[i] = g;
          continue;
        }
        for (size_t e = 0; e < g.size(); ++e) {
          const double once = gradients[i][e];
          if (!(std::fabs(g[e] - 2 * once) <= 1e-9 * std::fabs(once) + 1e-12))
            return failed("input " + std::to_string(i) + ", element " + std::to_string(e) +
                          ": one backward gives " + std::to_string(once) + ", two give " +
                          std::to_string(g[e]) + " instead of twice that");
        }
      }
    }
    return true;
  }

  bool differences(const std::vector<std::vector<double>>& gradients) {
    NoGrad off;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!wants_gradient(inputs[i])) continue;
      double* x = inputs[i].data<double>();
      const int64_t n = inputs[i].numel();
      const int64_t count = options.max_elements ? std::min(options.max_elements, n) : n;
      for (int64_t k = 0; k < count; ++k) {
        const int64_t e = spread(k, count, n);
        const double before = x[e];
        x[e] = before + options.eps;
        const double up = dot(f(inputs), cotangent);
        x[e] = before - options.eps;
        const double down = dot(f(inputs), cotangent);
        x[e] = before;
        const double numeric = (up - down) / (2 * options.eps), tape = gradients[i][size_t(e)];
        double ratio = std::fabs(numeric - tape) / (options.atol + options.rtol * std::fabs(numeric));
        if (std::isnan(ratio)) ratio = INFINITY;
        ++report.compared;
        if (ratio > 1 && ratio > report.worst) report.message = describe(int(i), e, numeric, tape);
        report.worst = std::max(report.worst, ratio);
      }
    }
    if (report.compared == 0) return failed("nothing was compared: no floating input has an element");
    return report.worst <= 1;
  }
};

}  // namespace

GradientReport check_gradient(const Function& f, const std::vector<Tensor>& inputs,
                              const GradientOptions& options) {
  Check check{f, options, private_copies(inputs), {}, {}};
  std::vector<std::vector<double>> gradients;
  check.report.ok = check.tape_gradients(gradients) && check.differences(gradients);
  return check.report;
}

}  // namespace pursuit
