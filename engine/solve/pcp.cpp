#include "engine/solve/pcp.h"

#include <cmath>

#include "cuda/pcp.cuh"
#include "engine/cpu/parallel.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

namespace {

PcpResult nothing_yet(const Tensor& m) {
  const size_t batch = size_t(m.size(0));
  return {zeros_like(m),
          zeros_like(m),
          zeros_like(m),
          std::vector<int>(batch, 0),
          std::vector<std::vector<double>>(batch),
          true};
}

[[noreturn]] void fail_broken(int64_t matrix) {
  fail("principal_component_pursuit", "matrix " + std::to_string(matrix) + " holds NaN or infinity");
}

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
    result_ = nothing_yet(m_);
    for (int64_t b = 0; b < batch_; ++b) {
      double sum = 0, squares = 0;
      for (int64_t i = 0; i < size(); ++i) {
        const double x = double(at(m_, b, size())[i]);
        sum += std::abs(x);
        squares += x * x;
      }
      if (!std::isfinite(sum)) fail_broken(b);
      norm_.push_back(std::sqrt(squares));
      mu_.push_back(options_.mu > 0 ? options_.mu : double(size()) / (4 * sum));
      if (norm_.back() > 0) active_.push_back(b);
    }
    if (options_.max_iterations < 1) active_.clear();
  }

  // One iteration for all matrices that have not stopped.
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

  // Computes S and Y of matrix b from its new L; returns whether it stops.
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

#ifdef PURSUIT_GPU
// In f32, entirely on the device. The host reads the residuals every few iterations; the kernel skips
// matrices that stopped in between.
class DevicePursuit {
 public:
  DevicePursuit(const Tensor& m, const PcpOptions& options, PcpResult& result)
      : m_(m), options_(options), result_(result) {}

  void run() {
    start();
    while (!active_.empty()) iterate();
    result_.dual = result_.dual / tau_.reshape({m_.size(0), 1, 1});
  }

 private:
  static constexpr int iterations_a_look = 8;

  int64_t size() const { return m_.size(1) * m_.size(2); }
  cuda::Grid grid(size_t matrices) const { return {unsigned(matrices), 256, cuda::shared_size<float>(32)}; }

  void start() {
    result_ = nothing_yet(m_);
    const size_t batch = size_t(m_.size(0));
    norms_ = zeros({m_.size(0), 2}, DType::f32, m_.device());
    if (m_.numel() > 0)
      cuda::launch<cuda::pcp_norms_kernel>(grid(batch), m_.data<float>(), norms_.data<float>(), size());
    const std::vector<double> norms = norms_.to_vector();
    for (size_t b = 0; b < batch; ++b) {
      const double mean = norms[2 * b];
      if (!std::isfinite(mean)) fail_broken(int64_t(b));
      taus_.push_back(float(options_.mu > 0 ? 1 / options_.mu : mean > 0 ? 4 * mean : 1));
      if (mean > 0) active_.push_back(int32_t(b));
    }
    tau_ = from_vector(taus_, {m_.size(0)}, m_.device());
    if (options_.max_iterations < 1) {
      result_.converged = active_.empty();
      active_.clear();
    }
    gather();
  }

  // Gathers the next input of all matrices that have not stopped.
  void gather() {
    if (active_.empty()) return;
    const int64_t count = int64_t(active_.size());
    list_ = from_vector(active_, {count}, m_.device());
    std::vector<float> taus;
    for (const int32_t b : active_) taus.push_back(taus_[size_t(b)]);
    active_tau_ = from_vector(taus, {count}, m_.device());
    x_ = empty({count, m_.size(1), m_.size(2)}, DType::f32, m_.device());
    cuda::launch<cuda::pcp_input_kernel>(grid(active_.size()), m_.data<float>(), result_.sparse.data<float>(),
                                         result_.dual.data<float>(), list_.data<int32_t>(), x_.data<float>(),
                                         size());
  }

  void iterate() {
    const int steps = std::min(iterations_a_look, options_.max_iterations - iterations_);
    const Tensor residuals = empty({int64_t(active_.size()), steps}, DType::f32, m_.device());
    const cuda::PcpState state{m_.data<float>(),
                               tau_.data<float>(),
                               norms_.data<float>(),
                               result_.low_rank.data<float>(),
                               result_.sparse.data<float>(),
                               result_.dual.data<float>(),
                               size(),
                               float(options_.lambda),
                               float(options_.tolerance)};
    for (int step = 0; step < steps; ++step) {
      const bool last = ++iterations_ == options_.max_iterations;
      const Tensor low_rank = singular_value_threshold(x_, active_tau_);
      cuda::launch<cuda::pcp_step_kernel>(grid(active_.size()), state, list_.data<int32_t>(),
                                          low_rank.data<float>(), x_.data<float>(), residuals.data<float>(),
                                          steps, step, last);
    }
    const std::vector<double> seen = residuals.to_vector();
    std::vector<int32_t> left;
    for (size_t k = 0; k < active_.size(); ++k) {
      const size_t b = size_t(active_[k]);
      bool within = false;
      for (int step = 0; step < steps && !within; ++step) {
        result_.residuals[b].push_back(seen[k * size_t(steps) + size_t(step)]);
        within = result_.residuals[b].back() <= state.tolerance;
      }
      result_.iterations[b] = int(result_.residuals[b].size());
      result_.converged &= within || iterations_ < options_.max_iterations;
      if (!within && iterations_ < options_.max_iterations) left.push_back(active_[k]);
    }
    if (left == active_) return;
    active_ = left;
    gather();
  }

  Tensor m_;  // f32 [batch, n1, n2]
  PcpOptions options_;
  PcpResult& result_;  // its dual holds U until the end
  Tensor norms_, tau_;
  std::vector<float> taus_;  // as tau_
  std::vector<int32_t> active_;
  Tensor list_, active_tau_, x_;  // active_ on the device, with thresholds and next input
  int iterations_ = 0;
};
#endif

}  // namespace

PcpResult principal_component_pursuit(const Tensor& m, const PcpOptions& options) {
  const char* where = "principal_component_pursuit";
  if ((m.ndim() != 2 && m.ndim() != 3) || (m.dtype() != DType::f32 && m.dtype() != DType::f64))
    fail(where, "got " + m.str() + ", need f32 or f64 [n1, n2] or [B, n1, n2]");
  if (!(options.lambda >= 0 && options.mu >= 0 && options.tolerance >= 0))
    fail(where, "got lambda " + std::to_string(options.lambda) + ", mu " + std::to_string(options.mu) +
                    ", tolerance " + std::to_string(options.tolerance) + ", need 0 (the default) or more");
  const NoGrad off;
  PcpOptions o = options;
  if (o.lambda == 0) o.lambda = 1 / std::sqrt(double(std::max<int64_t>(1, std::max(m.size(-2), m.size(-1)))));
  if (o.tolerance == 0) o.tolerance = m.dtype() == DType::f64 ? 1e-7 : 1e-5;
  const Shape batched = m.ndim() == 3 ? m.shape() : Shape{1, m.size(0), m.size(1)};
  PcpResult result;
  if (m.device().is_cuda()) {
#ifdef PURSUIT_GPU
    DevicePursuit(m.detach().contiguous().reshape(batched), o, result).run();
#endif
  } else {
    // Always in f64: Y accumulates the small differences M - L - S of all iterations.
    Pursuit(m.detach().to(DType::f64).contiguous().reshape(batched), o, result).run();
  }
  for (Tensor* t : {&result.low_rank, &result.sparse, &result.dual}) *t = t->to(m.dtype()).reshape(m.shape());
  return result;
}

}  // namespace pursuit
