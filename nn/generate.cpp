#include "nn/generate.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "engine/base/error.h"
#include "engine/ops.h"

namespace pursuit::nn {

int64_t sample(std::span<const double> logits, const SamplingOptions& options, Random& random) {
  if (!(options.temperature >= 0)) fail("generate", "the temperature must be 0 or more");
  if (options.top_k < 0) fail("generate", "top-k must be 0 (all) or more");
  if (!(options.top_p > 0 && options.top_p <= 1)) fail("generate", "top-p must be more than 0 and at most 1");
  const auto value = [&](int64_t word) { return logits[size_t(word)]; };
  const auto is_forbidden = [&](int64_t word) {
    return std::count(options.forbidden.begin(), options.forbidden.end(), word) > 0;
  };
  const int64_t size = int64_t(logits.size());
  int64_t best = -1;
  for (int64_t i = 0; i < size; ++i) {
    if (std::isnan(value(i))) fail("generate", "the model gives NaN; did its training diverge?");
    if ((best < 0 || value(i) > value(best)) && !is_forbidden(i)) best = i;
  }
  if (best < 0) fail("generate", "no word is left to draw");
  const double top = value(best);
  if (!std::isfinite(top))
    fail("generate", "the model gives values that are not finite; did its training diverge?");
  if (options.temperature == 0) return best;
  std::vector<int64_t> words;
  words.reserve(logits.size());
  for (int64_t i = 0; i < size; ++i)
    if (!is_forbidden(i)) words.push_back(i);
  const auto before = [&](int64_t a, int64_t b) {
    return value(a) != value(b) ? value(a) > value(b) : a < b;
  };
  const auto first = words.begin();
  if (options.top_k > 0 && size_t(options.top_k) < words.size()) {
    std::nth_element(first, first + options.top_k, words.end(), before);
    words.resize(size_t(options.top_k));
  }
  if (words.size() == 1) return best;
  const auto weight = [&](int64_t word) { return std::exp((value(word) - top) / options.temperature); };
  const double total = std::transform_reduce(words.begin(), words.end(), 0.0, std::plus(), weight);
  // Most draws end among the most probable words, so no more are ranked than are needed.
  std::vector<double> p;
  const auto ranked = [&](size_t i) {
    if (i >= p.size()) {
      const size_t size = std::min(words.size(), std::max<size_t>(64, 8 * p.size()));
      std::partial_sort(first + std::ptrdiff_t(p.size()), first + std::ptrdiff_t(size), words.end(), before);
      while (p.size() < size) p.push_back(weight(words[p.size()]));
    }
    return p[i];
  };
  size_t count = words.size();
  double kept = total;
  if (options.top_p < 1)
    for (count = 0, kept = 0; count < words.size() && kept < options.top_p * total;) kept += ranked(count++);
  double left = random.uniform() * kept;
  for (size_t i = 0; i + 1 < count; ++i)
    if ((left -= ranked(i)) < 0) return words[i];
  ranked(count - 1);
  return words[count - 1];
}

std::vector<int64_t> generate(const TransformerLm& model, int64_t line_end,
                              const std::vector<int64_t>& prompt, const GenerationOptions& options,
                              Random& random, const std::function<bool(int64_t)>& each) {
  const Device device = model.embed_weight.device();
  const int64_t context = model.config().context;
  const bool use_cache = options.use_cache && model.has_cache();
  std::vector<int64_t> text = {line_end}, drawn;
  text.insert(text.end(), prompt.begin(), prompt.end());
  if (options.lines_stand_alone) {
    const auto end = std::find(text.rbegin(), text.rend(), line_end).base();
    text.erase(text.begin(), end - 1);
  }
  LmCache cache;
  int64_t read = 0;  // words of the text that are in the cache
  while (int64_t(drawn.size()) < options.count) {
    if (options.lines_stand_alone && text.back() == line_end) {
      text = {line_end};
      cache = {};
      read = 0;
    }
    const int64_t size = int64_t(text.size());
    int64_t begin = std::max(size - context, int64_t(0));
    if (use_cache && (read == 0 || cache.length + size - read > context)) {
      if (read > 0) begin = std::max(size - std::max(context / 2, int64_t(1)), int64_t(0));
      cache = {};
    } else if (use_cache) {
      begin = read;
    }
    const Tensor ids =
        from_vector(std::vector<int64_t>(text.begin() + begin, text.end()), {1, size - begin}, device);
    const Tensor logits = use_cache ? model.next_logits(ids, cache) : model.next_logits(ids);
    read = size;
    drawn.push_back(sample(logits.to_vector(), options.sampling, random));
    text.push_back(drawn.back());
    if (each && !each(drawn.back())) break;
  }
  return drawn;
}

}  // namespace pursuit::nn
