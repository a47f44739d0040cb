#include "engine/pcp.h"

#include <cmath>

#include "engine/operator.h"
#include "engine/ops.h"
#include "engine/parallel.h"

namespace pursuit {

namespace {

class Pursuit {
 public:
  Pursuit(const Tensor& m, const PcpOptions& options, PcpResult& result)
      : batch_(m.size(0)), rows_(m.size(1)), cols_(m.size(2)), options_(options), m_(m), result_(result) {}

  void run() {
    start();
    while (!active_.empty()) iterate();
    for (int64_t b = 0; b < batch_; ++b)
      result_.converged &= norm_[size_t(b)] == 0 || result_.residuals[size_t(b)].back() <= options_.tolerance;
  }

 private:
  int64_t size() const { return rows_ * cols_; }
  static double* at(const Tensor& t, int64_t i, int64_t size) { return t.data<double>() + i * size; }

  void start() {
    result_.low_rank = zeros(m_.shape(), m_.dtype());
    result_.sparse = zeros(m_.shape(), m_.dtype());
    result_.dual = zeros(m_.shape(), m_.dtype());
    result_.iterations.assign(size_t(batch_), 0);
    result_.residuals.assign(size_t(batch_), {});
    result_.converged = true;
    for (int64_t b = 0; b < batch_; ++b) {
      double sum = 0, squares = 0;
      for (int64_t i = 0; i < size(); ++i) {
        const double x = double(at(m_, b, size())[i]);
        sum += std::abs(x);
        squares += x * x;
      }
      if (!std::isfinite(sum))
        fail("principal_component_pursuit", "matrix " + std::to_string(b) + " holds NaN or infinity");
      norm_.push_back(std::sqrt(squares));
      mu_.push_back(options_.mu > 0 ? options_.mu : double(size()) / (4 * sum));
      if (norm_.back() > 0) active_.push_back(b);
    }
    if (options_.max_iterations < 1) active_.clear();
  }

  // One iteration of all matrices that have not stopped.
  void iterate() {
    const int64_t count = int64_t(active_.size());
    const Tensor x = empty({count, rows_, cols_}, m_.dtype()), tau = empty({count}, m_.dtype());
    parallel_for(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        const int64_t b = active_[size_t(k)];
        const double mu = mu_[size_t(b)];
        const double *m = at(m_, b, size()), *s = at(result_.sparse, b, size()),
                     *y = at(result_.dual, b, size());
        double* to = at(x, k, size());
        for (int64_t i = 0; i < size(); ++i) to[i] = m[i] - s[i] + y[i] / mu;
        tau.data<double>()[k] = 1 / mu;
      }
    });
    const Tensor low_rank = singular_value_threshold(x, tau);
    std::vector<char> stops(static_cast<size_t>(count));
    parallel_for(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k)
        stops[size_t(k)] = shrink(active_[size_t(k)], at(low_rank, k, size()));
    });
    std::vector<int64_t> left;
    for (size_t k = 0; k < stops.size(); ++k)
      if (!stops[k]) left.push_back(active_[k]);
    active_ = left;
  }

  // S and Y of matrix b from its new L; whether it stops.
  bool shrink(int64_t b, const double* low_rank) {
    const double mu = mu_[size_t(b)], threshold = options_.lambda / mu_[size_t(b)];
    const double* m = at(m_, b, size());
    double *l = at(result_.low_rank, b, size()), *s = at(result_.sparse, b, size()),
           *y = at(result_.dual, b, size());
    double squares = 0;
    for (int64_t i = 0; i < size(); ++i) {
      l[i] = low_rank[i];
      const double rest = m[i] - l[i], v = rest + y[i] / mu;
      s[i] = v > threshold ? v - threshold : v < -threshold ? v + threshold : 0.0;
      const double error = rest - s[i];
      y[i] += mu * error;
      squares += double(error) * double(error);
    }
    const double residual = std::sqrt(squares) / norm_[size_t(b)];
    result_.residuals[size_t(b)].push_back(residual);
    return ++result_.iterations[size_t(b)] >= options_.max_iterations || residual <= options_.tolerance;
  }

  int64_t batch_, rows_, cols_;
  PcpOptions options_;
  Tensor m_;
  PcpResult& result_;
  std::vector<double> norm_, mu_;
  std::vector<int64_t> active_;
};

}  // namespace

PcpResult principal_component_pursuit(const Tensor& m, const PcpOptions& options) {
  const char* where = "principal_component_pursuit";
  if ((m.ndim() != 2 && m.ndim() != 3) || m.device().is_cuda() ||
      (m.dtype() != DType::f32 && m.dtype() != DType::f64))
    fail(where, "got " + m.str() + ", need f32 or f64 [n1, n2] or [B, n1, n2] on the CPU");
  if (!(options.lambda >= 0 && options.mu >= 0 && options.tolerance >= 0))
    fail(where, "got lambda " + std::to_string(options.lambda) + ", mu " + std::to_string(options.mu) +
                    ", tolerance " + std::to_string(options.tolerance) + ", need 0 (the default) or more");
  const NoGrad off;
  PcpOptions o = options;
  if (o.lambda == 0) o.lambda = 1 / std::sqrt(double(std::max<int64_t>(1, std::max(m.size(-2), m.size(-1)))));
  if (o.tolerance == 0) o.tolerance = m.dtype() == DType::f64 ? 1e-7 : 1e-5;
  const Shape batched = m.ndim() == 3 ? m.shape() : Shape{1, m.size(0), m.size(1)};
  // In f64 whatever the input: Y adds up the small differences M - L - S of all iterations.
  const Tensor dense = m.detach().to(DType::f64).contiguous().reshape(batched);
  PcpResult result;
  Pursuit(dense, o, result).run();
  for (Tensor* t : {&result.low_rank, &result.sparse, &result.dual}) *t = t->to(m.dtype()).reshape(m.shape());
  return result;
}

}  // namespace pursuit
