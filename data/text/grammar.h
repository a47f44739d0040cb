#pragma once
#include "data/text/source.h"

namespace pursuit::data {

// One line of the built-in grammar is a story:
//
//   anna gave boris three small red boxes and boris thanked anna for the boxes .
//   anna gave boris a box and anna saw that the box was heavy .
//
// Names, nouns and the verb's number in the second half follow from the first half, so a model without
// attention cannot predict them. A line has one derivation, so its entropy is the sum of its choices'.
struct GrammarFacts {
  double nats;   // entropy of a line
  double words;  // mean words of a line, <eos> included
  double bytes;  // mean bytes of a line, newline included
};
GrammarFacts grammar_facts();

// 20,000 lines to train on, 1,000 each for validation and test, always the same ones.
TextSource grammar_text();

}  // namespace pursuit::data
