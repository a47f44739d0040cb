#include "apps/pca/prompts.h"

#include <algorithm>

#include "apps/pca/draws.h"
#include "apps/pca/width.h"
#include "engine/base/random.h"
#include "engine/cpu/parallel.h"

namespace pursuit::pca {

namespace {

// tokens [n, d] <- tokens L^T, from the last element on, since L is lower triangular.
template <class D> void colour(float* tokens, int64_t n, const float* factor, D d) {
  for (int64_t t = 0; t < n; ++t, tokens += d)
    for (int64_t i = d - 1; i >= 0; --i) {
      float sum = 0;
      for (int64_t j = 0; j <= i; ++j) sum += factor[i * d + j] * tokens[j];
      tokens[i] = sum;
    }
}

}  // namespace

PromptSource::PromptSource(const Setting& setting, const Covariance& covariance, uint64_t seed, int64_t point)
    : setting_(setting), factor_(covariance.matrix), seed_(seed), point_(point) {
  cholesky(factor_, setting.dim);
}

std::vector<double> PromptSource::factors(int64_t step, int64_t run) const {
  if (!setting_.in_context) return factor_;
  const auto d = size_t(setting_.dim);
  Random random(seed_, stream_of(Draw::wishart, point_, step, run));
  std::vector<double> all, z(d), x(d);
  for (int64_t c = 0; c < setting_.covariances; ++c) {
    std::vector<double> wishart(d * d);
    for (int64_t k = 0; k < setting_.vectors; ++k) {
      for (double& v : z) v = random.normal();
      for (size_t i = 0; i < d; ++i) x[i] = dot({factor_.data() + i * d, i + 1}, {z.data(), i + 1});
      for (size_t i = 0; i < d; ++i)
        for (size_t j = 0; j < d; ++j) wishart[i * d + j] += x[i] * x[j];
    }
    cholesky(wishart, setting_.dim);
    all.insert(all.end(), wishart.begin(), wishart.end());
  }
  return all;
}

Tensor PromptSource::draw(int64_t step) const {
  const int64_t d = setting_.dim, runs = setting_.runs;
  const int64_t tokens = setting_.per_covariance * setting_.length;  // of one covariance
  const int64_t numbers = setting_.covariances * tokens * d;         // of one run
  const Tensor prompts =
      empty({runs, setting_.covariances * setting_.per_covariance, setting_.length, d}, DType::f32);
  float* x = prompts.data<float>();
  const int64_t blocks = (numbers + normals_block - 1) / normals_block;
  parallel_for(runs * blocks, 8, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t run = b / blocks, first = b % blocks * normals_block;
      draw_normals(seed_, stream_of(Draw::tokens, point_, step, run), first, x + run * numbers + first,
                   std::min(normals_block, numbers - first));
    }
  });
  std::vector<float> all(size_t(runs * setting_.covariances * d * d));  // [runs, covariances, d, d]
  parallel_for(runs, 1, [&](int64_t begin, int64_t end) {
    for (int64_t run = begin; run < end; ++run)
      std::ranges::copy(factors(step, run), all.begin() + run * setting_.covariances * d * d);
  });
  // Parts of at most 256 tokens of one covariance.
  constexpr int64_t most = 256;
  const int64_t parts = (tokens + most - 1) / most;
  parallel_for(runs * setting_.covariances * parts, 4, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t group = b / parts, first = b % parts * most;
      float* part = x + (group * tokens + first) * d;
      const float* factor = all.data() + group * d * d;
      const int64_t n = std::min(most, tokens - first);
      with_width(d, [&](auto width) { colour(part, n, factor, width); });
    }
  });
  return prompts;
}

}  // namespace pursuit::pca
