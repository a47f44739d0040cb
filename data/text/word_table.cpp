#include "data/text/word_table.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <utility>

namespace pursuit::data {
namespace {

uint32_t hash_of(std::string_view word) { return uint32_t(XXH3_64bits(word.data(), word.size())); }

}  // namespace

size_t WordTable::slot_of(std::string_view word) const {
  const uint32_t hash = hash_of(word);
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.number < 0 || (slot.hash == hash && words_[size_t(slot.number)] == word)) return at;
  }
}

int32_t WordTable::add(std::string_view word) {
  size_t at = slot_of(word);
  if (slots_[at].number >= 0) return slots_[at].number;
  if (2 * (words_.size() + 1) > slots_.size()) {
    grow();
    at = slot_of(word);
  }
  slots_[at] = {hash_of(word), int32_t(words_.size())};
  words_.push_back(word);
  return slots_[at].number;
}

void WordTable::grow() {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(2 * slots_.size()));
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.number < 0) continue;
    size_t at = slot.hash & mask;
    while (slots_[at].number >= 0) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

}  // namespace pursuit::data
