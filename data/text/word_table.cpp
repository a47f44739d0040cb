#include "data/text/word_table.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

namespace pursuit::data {
namespace {

template <class T> uint64_t load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// The first 8 bytes; of a shorter word all of them, some twice.
uint64_t head_of(std::string_view word) {
  const char* const p = word.data();
  const size_t n = word.size();
  if (n >= 8) return load<uint64_t>(p);
  if (n >= 4) return load<uint32_t>(p) | load<uint32_t>(p + n - 4) << 32;
  if (n == 0) return 0;
  return load<uint8_t>(p) | load<uint8_t>(p + n / 2) << 8 | load<uint8_t>(p + n - 1) << 16;
}

size_t hash_of(std::string_view word, uint64_t head) {
  if (word.size() > 8) return size_t(XXH3_64bits(word.data(), word.size()));
  const uint64_t mixed = (head + word.size()) * 0x9E3779B97F4A7C15;
  return size_t(mixed ^ mixed >> 32);
}

}  // namespace

size_t WordTable::slot_of(std::string_view word) const {
  const uint64_t head = head_of(word);
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash_of(word, head) & mask;; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.number < 0) return at;
    if (slot.head == head && slot.length == word.size() &&
        (word.size() <= 8 || words_[size_t(slot.number)].substr(8) == word.substr(8)))
      return at;
  }
}

int32_t WordTable::add(std::string_view word) {
  size_t at = slot_of(word);
  if (slots_[at].number >= 0) return slots_[at].number;
  if (2 * (words_.size() + 1) > slots_.size()) {
    grow();
    at = slot_of(word);
  }
  slots_[at] = {head_of(word), uint32_t(word.size()), int32_t(words_.size())};
  words_.push_back(word);
  return slots_[at].number;
}

void WordTable::grow() {
  slots_.assign(2 * slots_.size(), Slot());
  for (size_t i = 0; i < words_.size(); ++i)
    slots_[slot_of(words_[i])] = {head_of(words_[i]), uint32_t(words_[i].size()), int32_t(i)};
}

}  // namespace pursuit::data
