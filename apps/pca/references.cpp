#include "apps/pca/references.h"

#include <algorithm>

#include "apps/pca/width.h"
#include "engine/cpu/parallel.h"
#include "engine/solve/linalg.h"

namespace pursuit::pca {

namespace {

// sum += x^T x of tokens x [n, d], on and below the diagonal.
template <class D> void add_products(const float* x, int64_t n, D d, float* __restrict sum) {
  for (int64_t t = 0; t < n; ++t, x += d)
    for (int64_t i = 0; i < d; ++i)
      for (int64_t j = 0; j <= i; ++j) sum[i * d + j] += x[i] * x[j];
}

// The second moment [d, d] of tokens [n, d]: sums of 64 tokens in f32, of these in double.
std::vector<double> second_moment(const float* x, int64_t n, int64_t d) {
  std::vector<double> moment(size_t(d * d));
  std::vector<float> sum(size_t(d * d));
  for (int64_t t = 0; t < n; t += 64) {
    std::fill(sum.begin(), sum.end(), 0.0f);
    with_width(d,
               [&](auto width) { add_products(x + t * d, std::min<int64_t>(64, n - t), width, sum.data()); });
    for (size_t i = 0; i < sum.size(); ++i) moment[i] += double(sum[i]) / double(n);
  }
  for (int64_t i = 0; i < d; ++i)
    for (int64_t j = 0; j < i; ++j) moment[size_t(j * d + i)] = moment[size_t(i * d + j)];
  return moment;
}

}  // namespace

References::References(const std::vector<std::vector<double>>& starts)
    : oja_(starts), moments_(starts.size(), std::vector<double>(starts[0].size() * starts[0].size())) {}

void References::add(const Tensor& prompts) {
  const int64_t tokens = prompts.size(1) * prompts.size(2), dim = prompts.size(3);
  const auto d = size_t(dim);
  parallel_for(int64_t(oja_.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t run = begin; run < end; ++run) {
      const std::vector<double> c = second_moment(prompts.data<float>() + run * tokens * dim, tokens, dim);
      std::vector<double>& sum = moments_[size_t(run)];
      double trace = 0;  // of the sum of all C_t, t tr C
      for (size_t i = 0; i < d * d; ++i) sum[i] += c[i];
      for (size_t i = 0; i < d; ++i) trace += sum[i * d + i];
      std::vector<double>& w = oja_[size_t(run)];
      std::vector<double> turned = w;
      for (size_t i = 0; i < d; ++i) turned[i] += 2 * double(d) / trace * dot({c.data() + i * d, d}, w);
      const double length = norm(turned);
      for (size_t i = 0; i < d; ++i) w[i] = turned[i] / length;
    }
  });
}

double References::oja(int64_t run, std::span<const double> target) const {
  return cosine(oja_[size_t(run)], target);
}

double References::sample_pca(int64_t run, std::span<const double> target) const {
  const int64_t d = int64_t(target.size());
  std::vector<double> vectors = moments_[size_t(run)], values(target.size());
  symmetric_eigen(vectors.data(), d, d, values.data());
  return cosine({vectors.data() + (d - 1) * d, size_t(d)}, target);
}

}  // namespace pursuit::pca
