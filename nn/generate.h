#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/base/random.h"
#include "nn/transformer_lm.h"

// Text generation with a language model, token by token.
namespace pursuit::nn {

struct SamplingOptions {
  double temperature = 1;  // 0: always the most probable word (greedy)
  int64_t top_k = 0;       // draw from the k most probable words only; 0: all
  double top_p = 1;        // nucleus sampling: the fewest words with at least this total probability
  std::vector<int64_t> forbidden = {};
};

// Draws a word; `logits` are log-probabilities up to a constant. Among equally probable words the first ranks
// higher. Throws Error if an option is invalid or no word is left.
int64_t sample(std::span<const double> logits, const SamplingOptions& options, Random& random);

struct GenerationOptions {
  int64_t count = 100;
  SamplingOptions sampling = {};
  // Use a KV cache if the model supports it. When the window is full, its first half is dropped and the rest
  // is read again. Without a cache every word is predicted from the last `context` words.
  bool use_cache = true;
  bool lines_stand_alone = false;  // a line does not see the lines before it
};

// Generates `count` words after `prompt`, which follows an end of line. `each` (may be empty) is called with
// every word and stops the generation by returning false.
std::vector<int64_t> generate(const TransformerLm& model, int64_t line_end,
                              const std::vector<int64_t>& prompt, const GenerationOptions& options,
                              Random& random, const std::function<bool(int64_t)>& each = {});

}  // namespace pursuit::nn
