#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "data/image.h"

namespace pursuit::data {

using Rgb = std::array<uint8_t, 3>;

// The label of a pixel that counts neither in training nor in evaluation.
constexpr uint8_t kIgnoredLabel = 255;

// What the numbers or the colours in a set's label maps stand for.
class LabelKey {
 public:
  struct Entry {
    std::string name;
    std::optional<Rgb> colour;
  };

  // Entry i stands for the number i of an index map and, where it has one, for its colour. Entries named
  // "ignore" are no classes; the others are numbered in order. The number 255 is always ignored. `source` is
  // used in errors. Throws if there is no class or more than 255 entries, if only some classes or `ignore`
  // alone have colours, or if a name or a colour comes twice.
  LabelKey(const std::vector<Entry>& entries, const std::string& source);

  const std::vector<std::string>& classes() const { return classes_; }
  // The classes' colours; where the key gives none, those of the PASCAL VOC colour map from its second on.
  const std::vector<Rgb>& colours() const { return colours_; }

  // Reads a label map, a PNG: grey ones hold numbers, RGB ones colours, and those with a palette hold colours
  // if the key has some, else numbers. The result has one channel: class or kIgnoredLabel. Throws an Error
  // that names the file and the pixel if a number or colour has no meaning.
  Image read(const std::string& path) const;

 private:
  Image by_number(const Image& numbers, const std::string& path) const;
  Image by_colour(const Image& picture, const std::string& path) const;

  std::vector<std::string> classes_;
  std::vector<Rgb> colours_;
  std::array<int, 256> of_number_;                   // class, kIgnoredLabel, or -1 for no meaning
  std::unordered_map<uint32_t, uint8_t> of_colour_;  // 0xRRGGBB
  size_t entries_;
};

// One class a line, in the order of the numbers: a name, and for colour maps red, green and blue behind it
// ("traffic light 250 170 30"). The name "ignore" marks a number or colour that does not count.
LabelKey read_class_file(const std::string& path);

}  // namespace pursuit::data
