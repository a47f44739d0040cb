#pragma once
#include <functional>

#include "data/text/batches.h"
#include "nn/transformer_lm.h"

namespace pursuit::lm {

// -log p in nats, summed over the tokens that were predicted.
struct Score {
  double nats = 0;
  int64_t tokens = 0;
  double loss() const { return nats / double(tokens); }  // mean cross-entropy
  double perplexity() const;
};

using Tick = std::function<void(int64_t tokens)>;  // predicted so far

// Over the rows of a text, each read without what stands before it. Stops early, with what it has, when a
// stop was requested.
Score score_blocks(const nn::TransformerLm& model, data::TextBatches& rows, const Tick& tick = {});

// By a window of `context` tokens that moves on by one: the first window predicts all its tokens, every later
// one only its last, so that every token but the first ones has all the context the model can take (Teo &
// Nguyen 2024, A.4). The text begins after an end of line. `batch_size` windows are computed at a time.
Score score_sliding(const nn::TransformerLm& model, std::span<const int32_t> text, int32_t line_end,
                    int64_t batch_size, const Tick& tick = {});

}  // namespace pursuit::lm
