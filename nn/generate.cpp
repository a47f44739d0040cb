#include "nn/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/error.h"
#include "engine/ops.h"

namespace pursuit::nn {

int64_t sample(std::span<const double> logits, const SamplingOptions& options, Random& random) {
  if (!(options.temperature >= 0)) fail("generate", "the temperature must be 0 or more");
  if (options.top_k < 0) fail("generate", "top-k must be 0 (all) or more");
  if (!(options.top_p > 0 && options.top_p <= 1)) fail("generate", "top-p must be more than 0 and at most 1");
  if (std::any_of(logits.begin(), logits.end(), [](double v) { return std::isnan(v); }))
    fail("generate", "the model gives NaN; did its training diverge?");
  std::vector<int64_t> words;
  for (int64_t i = 0; i < int64_t(logits.size()); ++i)
    if (std::count(options.forbidden.begin(), options.forbidden.end(), i) == 0) words.push_back(i);
  if (words.empty()) fail("generate", "no word is left to draw");
  const auto value = [&](int64_t word) { return logits[size_t(word)]; };
  // Only the candidates must be sorted.
  const size_t ranked = options.temperature == 0 ? 1
                        : options.top_k > 0      ? std::min(words.size(), size_t(options.top_k))
                                                 : words.size();
  std::partial_sort(words.begin(), words.begin() + std::ptrdiff_t(ranked), words.end(),
                    [&](int64_t a, int64_t b) { return value(a) != value(b) ? value(a) > value(b) : a < b; });
  words.resize(ranked);
  const double top = value(words[0]);
  if (!std::isfinite(top))
    fail("generate", "the model gives values that are not finite; did its training diverge?");
  if (ranked == 1) return words[0];
  std::vector<double> p;
  for (const int64_t word : words) p.push_back(std::exp((value(word) - top) / options.temperature));
  double total = std::accumulate(p.begin(), p.end(), 0.0), kept = 0;
  size_t count = 0;
  while (count < p.size() && kept < options.top_p * total) kept += p[count++];
  double left = random.uniform() * kept;
  for (size_t i = 0; i + 1 < count; ++i)
    if ((left -= p[i]) < 0) return words[i];
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
