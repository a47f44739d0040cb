#pragma once
#include <cstdint>
#include <span>

#include "engine/base/random.h"

// Masked language modelling (Devlin et al. 2019, section 3.1): some words of a row are hidden and predicted
// from those on both sides.
namespace pursuit::data {

struct Masking {
  double share = 0.15;  // of a row's words; at least one
  int64_t mask = 0;     // the id that hides a word, the number of words
};

// The number of words that are predicted in a row of `length`.
int64_t masked_words(int64_t length, const Masking& masking);

// Chooses that many words of a row. Each becomes the mask (80 %), a random word (10 %) or stays (10 %) in
// `ids`, and is a label; other words stay, with label -1. All three spans have the row's length.
void mask_row(std::span<const int32_t> words, const Masking& masking, Random& random, std::span<int64_t> ids,
              std::span<int64_t> labels);

}  // namespace pursuit::data
