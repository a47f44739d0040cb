#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace pursuit::data {

// Numbers words in the order in which they are added. Keeps views, whose text must outlive the table.
class WordTable {
 public:
  WordTable() : slots_(1 << 12) {}
  int32_t find(std::string_view word) const { return slots_[slot_of(word)].number; }  // -1 if it is not there
  int32_t add(std::string_view word);  // its number, new or not
  const std::vector<std::string_view>& words() const { return words_; }

 private:
  // With the length, a head tells words of up to 8 bytes apart: most are found without a look at their text.
  struct Slot {
    uint64_t head = 0;
    uint32_t length = 0;
    int32_t number = -1;
  };
  size_t slot_of(std::string_view word) const;  // where it is, or would be
  void grow();

  std::vector<Slot> slots_;  // open addressing, at most half full; a power of two
  std::vector<std::string_view> words_;
};

}  // namespace pursuit::data
