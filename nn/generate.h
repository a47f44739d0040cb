#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/base/random.h"
#include "nn/transformer_lm.h"

// Text from a language model, one token after the other.
namespace pursuit::nn {

struct SamplingOptions {
  double temperature = 1;  // 0: always the most probable word
  int64_t top_k = 0;       // of the most probable words only; 0: all
  double top_p = 1;        // of the fewest words whose probabilities make up this much (nucleus sampling)
  std::vector<int64_t> forbidden = {};
};

// Draws a word; `logits` are log-probabilities up to a constant. Of words of equal probability the first
// counts as the more probable. Throws Error if an option makes no sense or no word is left.
int64_t sample(std::span<const double> logits, const SamplingOptions& options, Random& random);

struct GenerationOptions {
  int64_t count = 100;
  SamplingOptions sampling = {};
  // Keys and values of the words read are kept, if the model can: then half of a full window is left behind
  // and the rest read anew. Without a cache every word is predicted from the last `context` ones.
  bool use_cache = true;
  bool lines_stand_alone = false;  // what follows an end of line does not see what stands before it
};

// The `count` words after `prompt`, which follows an end of line; `each` (may be empty) gets them one by one
// and ends the text by returning false.
std::vector<int64_t> generate(const TransformerLm& model, int64_t line_end,
                              const std::vector<int64_t>& prompt, const GenerationOptions& options,
                              Random& random, const std::function<bool(int64_t)>& each = {});

}  // namespace pursuit::nn
