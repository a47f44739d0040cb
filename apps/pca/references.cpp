#include "apps/pca/references.h"

#include "engine/ops.h"
#include "engine/solve/linalg.h"

namespace pursuit::pca {

References::References(const std::vector<std::vector<double>>& starts)
    : oja_(starts), moments_(starts.size(), std::vector<double>(starts[0].size() * starts[0].size())) {}

void References::add(const Tensor& prompts) {
  const NoGrad no_grad;
  const int64_t runs = prompts.size(0), tokens = prompts.size(1) * prompts.size(2), dim = prompts.size(3);
  const Tensor rows = prompts.reshape({runs, tokens, dim});
  const std::vector<double> moment = (matmul(rows.transpose(-1, -2), rows) / double(tokens)).to_vector();
  const auto d = size_t(dim);
  for (size_t run = 0; run < oja_.size(); ++run) {
    const double* c = moment.data() + run * d * d;
    std::vector<double>&w = oja_[run], &sum = moments_[run], turned = w;
    for (size_t i = 0; i < d * d; ++i) sum[i] += c[i];
    double trace = 0;  // of the sum, t tr C
    for (size_t i = 0; i < d; ++i) trace += sum[i * d + i];
    for (size_t i = 0; i < d; ++i) turned[i] += 2 * double(d) / trace * dot({c + i * d, d}, w);
    const double length = norm(turned);
    for (size_t i = 0; i < d; ++i) w[i] = turned[i] / length;
  }
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
