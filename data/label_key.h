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

// The label of a pixel that is ignored in training and evaluation.
constexpr uint8_t kIgnoredLabel = 255;

// Maps the numbers or colours in a data set's label maps to classes.
class LabelKey {
 public:
  struct Entry {
    std::string name;
    std::optional<Rgb> colour;
  };

  // Entry i is the meaning of number i of an index map and of the entry's colour, if it has one. Entries
  // named "ignore" are not classes; the others are numbered in order. Number 255 is always ignored. `source`
  // is used in errors. Throws if there are no classes or more than 255 entries, if only some classes or only
  // `ignore` have colours, or if a name or colour occurs twice.
  LabelKey(const std::vector<Entry>& entries, const std::string& source);

  const std::vector<std::string>& classes() const { return classes_; }
  // The colours of the classes; by default those of the PASCAL VOC colour map, from its second on.
  const std::vector<Rgb>& colours() const { return colours_; }

  // Reads a label map, a PNG: grey ones contain numbers, RGB ones colours, and palette ones colours if the
  // key has some, else numbers. The result has one channel: class or kIgnoredLabel. Throws an Error that
  // names the file and the pixel if a number or colour is unknown.
  Image read(const std::string& path) const;

 private:
  Image by_number(const Image& numbers, const std::string& path) const;
  Image by_colour(const Image& picture, const std::string& path) const;

  std::vector<std::string> classes_;
  std::vector<Rgb> colours_;
  std::array<int, 256> of_number_;                   // class, kIgnoredLabel, or -1 if unknown
  std::unordered_map<uint32_t, uint8_t> of_colour_;  // 0xRRGGBB
  size_t entries_;
};

// Reads one class per line, in order of the numbers: a name, followed by red, green and blue for colour maps
// ("traffic light 250 170 30"). The name "ignore" marks a number or colour that is ignored.
LabelKey read_class_file(const std::string& path);

}  // namespace pursuit::data
