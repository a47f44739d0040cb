#include "nn/kernel_pca.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/ops.h"
#include "engine/solve/linalg.h"

namespace pursuit::nn {

namespace {

double sigma(const Tensor& x) { return 1 / std::sqrt(double(x.size(1))); }

void check_head(const char* where, const Tensor& x) {
  if (x.ndim() != 2 || x.dtype() != DType::f64 || x.device().is_cuda())
    fail(where, "got " + x.str() + ", need f64 [N, D] on the CPU");
}

Tensor column(const Tensor& x) { return x.reshape({x.size(0), 1}); }

double norm(const Tensor& x) { return std::sqrt(sum(square(x)).item()); }

Tensor centred(const Tensor& x) { return x - mean(x, {0}, true); }

}  // namespace

Tensor log_scale(const Tensor& x, const Tensor& keys, bool causal) {
  check_head("log_scale", x);
  check_head("log_scale", keys);
  Tensor scores = matmul(x, keys.transpose(0, 1)) * sigma(keys);
  if (causal) scores = scores + log(lower_triangle(keys.size(0), DType::f64, cpu));  // log 0 = -inf
  return (scores - log_softmax(scores)).select(1, 0);
}

Tensor centred_gram(const Tensor& keys) {
  const NoGrad off;
  const Tensor scale = log_scale(keys, keys), scores = matmul(keys, keys.transpose(0, 1)) * sigma(keys);
  const Tensor gram = exp(scores - column(scale) - scale);
  return gram - mean(gram, {1}, true) - mean(gram, {0}, true) + mean(gram);
}

KernelPca kernel_pca(const Tensor& keys, int64_t components) {
  const NoGrad off;
  const Tensor gram = centred_gram(keys).contiguous();
  const int64_t n = keys.size(0);
  std::vector<double> ascending(static_cast<size_t>(n));
  symmetric_eigen(gram.data<double>(), n, n, ascending.data());
  KernelPca out;
  out.eigenvalues.assign(ascending.rbegin(), ascending.rend());
  const double least = double(n) * std::numeric_limits<double>::epsilon() * std::max(out.eigenvalues[0], 0.0);
  std::vector<Tensor> axes;
  for (int64_t d = 0; d < std::min(components, n) && out.eigenvalues[size_t(d)] > least; ++d) {
    std::vector<double> a = gram.select(0, n - 1 - d).to_vector();
    const double largest =
        *std::max_element(a.begin(), a.end(), [](double x, double y) { return std::abs(x) < std::abs(y); });
    const double factor = (largest < 0 ? -1 : 1) / std::sqrt(out.eigenvalues[size_t(d)]);
    for (double& v : a) v *= factor;
    axes.push_back(from_vector(a, {n}));
  }
  out.coefficients = axes.empty() ? zeros({n, 0}, DType::f64) : stack(axes, 1);
  out.values =
      axes.empty() ? out.coefficients : exp(-column(log_scale(keys, keys))) * centred(out.coefficients);
  return out;
}

ProjectionError projection_error(const Tensor& queries, const Tensor& keys, const Tensor& output,
                                 bool causal) {
  const NoGrad off;
  const Tensor scale = log_scale(queries, keys, causal), squares = sum(square(queries), {1});
  const Tensor first = sum(queries * keys.slice(0, 0, 1), {1});  // q_i k_1
  const Tensor query = exp(squares * sigma(keys) - scale * 2.0);
  const Tensor unscaled = exp(squares - first * 2.0 + (first * sigma(keys) - scale) * 2.0);
  const Tensor h = sum(square(output), {1});
  return {mean(query - h).item(), mean(unscaled - h).item(), mean(abs(query - h)).item(), mean(query).item(),
          mean(h).item()};
}

Tensor implied_coefficients(const Tensor& keys, const Tensor& values) {
  const NoGrad off;
  const Tensor scale = log_scale(keys, keys);
  return centred(exp(column(scale) - scale.max()) * values);
}

EigenvectorCheck eigenvector_check(const Tensor& gram, const Tensor& columns) {
  check_head("eigenvector_check", gram);
  check_head("eigenvector_check", columns);
  const NoGrad off;
  const int64_t n = columns.size(0), m = columns.size(1);
  const Tensor image = matmul(gram, columns);
  EigenvectorCheck out;
  for (int64_t d = 0; d < m; ++d) {
    const Tensor a = columns.select(1, d), b = image.select(1, d);
    std::vector<double> gamma = (b / (a * double(n))).to_vector();
    const double size = mean(abs(b / (a * double(n)))).item(), pairs = double(n) * double(n - 1) / 2;
    // Over all pairs: the sum of differences by sorting, and that of squares by the variance.
    std::sort(gamma.begin(), gamma.end());
    double total = 0, center = 0, squares = 0;
    for (size_t i = 0; i < gamma.size(); ++i) {
      total += double(2 * int64_t(i) - n + 1) * gamma[i];
      center += gamma[i] / double(n);
    }
    for (const double g : gamma) squares += (g - center) * (g - center);
    const double spread = total / pairs, variance = double(n) * squares / pairs - spread * spread;
    out.spread += spread / double(m);
    out.deviation += std::sqrt(std::max(variance, 0.0)) / double(m);
    out.relative += spread / size / double(m);
    out.cosine += std::abs(sum(a * b).item()) / (norm(a) * norm(b)) / double(m);
  }
  return out;
}

double linear_cka(const Tensor& a, const Tensor& b) {
  const NoGrad off;
  const auto product = [](const Tensor& x, const Tensor& y) {
    return norm(matmul(centred(x).transpose(0, 1), centred(y)));
  };
  const double both = product(a, b);
  return both * both / (product(a, a) * product(b, b));
}

Tensor analytic_s(const Tensor& keys) {
  const NoGrad off;
  const Tensor scale = log_scale(keys, keys);
  return exp(scale - column(scale)) / double(keys.size(0));
}

std::vector<double> singular_values(const Tensor& a) {
  check_head("singular_values", a);
  return svd(a).s.to_vector();
}

}  // namespace pursuit::nn
