#include <algorithm>
#include <cmath>

#include "engine/ops.h"
#include "engine/solve/linalg.h"
#include "engine/solve/pcp.h"
#include "tests/goldens/cases.h"

namespace pursuit::goldens {

namespace {

constexpr double float_tolerance = 1e-5;

double frobenius(const std::vector<double>& v) {
  double s = 0;
  for (double x : v) s += x * x;
  return std::sqrt(s);
}

// Properties of every solution: L + S equals M up to the tolerance, and L and S are those that M was made of.
void check_solution(Golden& g, const PcpResult& r, double tolerance) {
  const std::vector<double> m = g.stored("in.M").to_vector(), l = r.low_rank.to_vector(),
                            s = r.sparse.to_vector();
  if (l.size() != m.size() || s.size() != m.size()) fail("goldens", "the parts are not shaped as in.M");
  std::vector<double> rest;
  for (size_t i = 0; i < m.size(); ++i) rest.push_back(m[i] - l[i] - s[i]);
  // Every matrix stops at its tolerance, so the batch is within it too; twice for the rounding of the test
  // itself.
  g.judge("M - L - S", frobenius(rest), 2 * tolerance * frobenius(m));
}

void compare_iterations(Golden& g, const std::string& attribute, const std::vector<int>& got) {
  const std::vector<double> want = g.numbers(attribute);
  if (want.size() != got.size()) fail("goldens", "'" + attribute + "' needs one number a matrix");
  // Rounding may carry a residual over the tolerance an iteration early or late.
  for (size_t b = 0; b < want.size(); ++b)
    g.judge(attribute, std::fabs(want[b] - got[b]), 1,
            std::to_string(got[b]) + " iterations, need " + std::to_string(int(want[b])) + " +- 1");
}

}  // namespace

void svt_case(Golden& g) {
  const Tensor a = g.input("a");
  g.output("d", singular_value_threshold(a, g.scalar("tau")));
  const Tensor exact = a.detach().to(cpu);
  g.output("sigma", svd(g.dtype() == DType::bf16 ? exact.to(DType::f32) : exact).s);
}

// The tolerance is the file's in f64, and 1e-5 in f32, whose rounding limits convergence to about 1e-6. A
// bf16 run uses f32, since the decomposition does not support bf16.
void pcp_case(Golden& g) {
  const bool exact = g.dtype() == DType::f64;
  const Tensor m = g.stored("in.M").to(exact ? DType::f64 : DType::f32).to(g.device());
  PcpOptions options;
  options.lambda = g.number("lambda");
  options.tolerance = exact ? g.number("tol") : float_tolerance;
  const PcpResult r = principal_component_pursuit(m, options);
  check_solution(g, r, options.tolerance);
  compare_iterations(g, exact ? "iterations" : "iterations_tol_1e-5", r.iterations);

  // Stopped at 1e-5 the parts would differ from the file's, stopped at 1e-7, by about the tolerance: run as
  // long.
  PcpOptions full = options;
  full.tolerance = g.number("tol");
  const std::vector<double> iterations = g.numbers("iterations");
  full.max_iterations = int(*std::max_element(iterations.begin(), iterations.end()));
  const PcpResult end = exact ? r : principal_component_pursuit(m, full);
  g.compare("out.L", end.low_rank);
  g.compare("out.S", end.sparse);

  // Iterations one by one, whatever the tolerance.
  const auto run_for = [&](int64_t iterations) {
    PcpOptions some = options;
    some.tolerance = 1e-30;
    some.max_iterations = int(iterations);
    return principal_component_pursuit(m, some);
  };
  const Tensor& golden = g.stored("out.residuals");
  std::vector<double> residuals;
  for (const auto& of_matrix : run_for(golden.size(-1)).residuals)
    residuals.insert(residuals.end(), of_matrix.begin(), of_matrix.end());
  if (int64_t(residuals.size()) != golden.numel()) fail("goldens", "out.residuals needs one row a matrix");
  g.compare("out.residuals", from_vector(residuals, golden.shape()));

  for (const std::string& name : g.names("iter")) {
    const size_t dot = name.find('.');
    if (dot == std::string::npos || name.substr(dot) != ".L") continue;
    const PcpResult early = run_for(std::stoi(name.substr(0, dot)));
    const std::string prefix = "iter" + name.substr(0, dot);
    g.compare(prefix + ".L", early.low_rank);
    g.compare(prefix + ".S", early.sparse);
    g.compare(prefix + ".Y", early.dual);
  }
}

}  // namespace pursuit::goldens
