#pragma once
#include <cstdint>

#include "data/text/source.h"

namespace pursuit::data {

// The built-in grammar generates one story per line:
//
//   anna gave boris three small red boxes and boris thanked anna for the boxes .
//   anna gave boris a box and anna saw that the box was heavy .
//
// Names, nouns and the verb's number in the second half follow from the first half, so a model without
// attention cannot predict them. A line has one derivation: its entropy is the sum over its choices.
struct GrammarFacts {
  double nats;         // entropy of a line
  double words;        // mean words of a line, <eos> included
  double bytes;        // mean bytes of a line, newline included
  int64_t vocabulary;  // different words, <eos> included
};
GrammarFacts grammar_facts();

// 20,000 lines for training, 1,000 each for validation and test, always the same.
TextSource grammar_text();

}  // namespace pursuit::data
