#include "data/text/masking.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

namespace pursuit::data {

int64_t masked_words(int64_t length, const Masking& m) {
  return std::clamp<int64_t>(std::llround(m.share * double(length)), std::min<int64_t>(1, length), length);
}

void mask_row(std::span<const int32_t> words, const Masking& m, Random& random, std::span<int64_t> ids,
              std::span<int64_t> labels) {
  const int64_t length = int64_t(words.size()), chosen = masked_words(length, m);
  std::copy(words.begin(), words.end(), ids.begin());
  std::fill(labels.begin(), labels.end(), -1);
  std::vector<int64_t> places(words.size());
  std::iota(places.begin(), places.end(), 0);
  for (int64_t i = 0; i < chosen; ++i) {  // the first places of a random order
    std::swap(places[size_t(i)], places[size_t(i + random.below(length - i))]);
    const size_t at = size_t(places[size_t(i)]);
    labels[at] = words[at];
    const double how = random.uniform();
    if (how < 0.8)
      ids[at] = m.mask;
    else if (how < 0.9)
      ids[at] = random.below(m.mask);
  }
}

}  // namespace pursuit::data
