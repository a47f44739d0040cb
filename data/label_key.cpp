#include "data/label_key.h"

#include <algorithm>
#include <sstream>

#include "data/dataset.h"
#include "data/png.h"
#include "engine/base/error.h"

namespace pursuit::data {
namespace {

constexpr const char* kIgnore = "ignore";
constexpr size_t kMaxEntries = 255;  // a class id is one byte, and 255 means ignored

uint32_t packed(const uint8_t* rgb) { return uint32_t(rgb[0]) << 16 | uint32_t(rgb[1]) << 8 | rgb[2]; }

std::string text_of(const uint8_t* rgb) {
  return std::to_string(rgb[0]) + " " + std::to_string(rgb[1]) + " " + std::to_string(rgb[2]);
}

// Colour i of the PASCAL VOC colour map: the bits of i, three at a time, become the upper bits of red, green
// and blue.
Rgb voc_colour(size_t i) {
  Rgb colour{};
  for (int bit = 7; i != 0; --bit, i >>= 3)
    for (size_t c = 0; c < 3; ++c) colour[c] = uint8_t(colour[c] | (i >> c & 1) << bit);
  return colour;
}

std::string at(const Image& image, size_t pixel) {
  return "the pixel at x " + std::to_string(pixel % size_t(image.width)) + ", y " +
         std::to_string(pixel / size_t(image.width));
}

}  // namespace

LabelKey::LabelKey(const std::vector<Entry>& entries, const std::string& source) : entries_(entries.size()) {
  if (entries.size() > kMaxEntries)
    fail("label_key", source + ": got " + std::to_string(entries.size()) + " entries, need at most " +
                          std::to_string(kMaxEntries));
  of_number_.fill(-1);
  of_number_[kIgnoredLabel] = kIgnoredLabel;
  for (size_t i = 0; i < entries.size(); ++i) {
    const Entry& entry = entries[i];
    const bool ignored = entry.name == kIgnore;
    const auto label = ignored ? kIgnoredLabel : uint8_t(classes_.size());
    of_number_[i] = label;
    if (entry.colour && !of_colour_.emplace(packed(entry.colour->data()), label).second)
      fail("label_key", source + ": the colour " + text_of(entry.colour->data()) + " of " + entry.name +
                            " is another entry's too; give each its own");
    if (ignored) continue;
    if (const auto same = std::find(classes_.begin(), classes_.end(), entry.name); same != classes_.end())
      fail("label_key", source + " line " + std::to_string(i + 1) + ": '" + entry.name +
                            "' is the name of another line too; give every class its own");
    colours_.push_back(entry.colour.value_or(voc_colour(classes_.size() + 1)));
    classes_.push_back(entry.name);
  }
  if (classes_.empty()) fail("label_key", source + ": no classes; give one a line");
  const auto coloured = std::count_if(entries.begin(), entries.end(), [](const Entry& entry) {
    return entry.colour && entry.name != kIgnore;
  });
  if (!of_colour_.empty() && size_t(coloured) != classes_.size())
    fail("label_key", source + ": " + std::to_string(coloured) + " of " + std::to_string(classes_.size()) +
                          " classes have a colour" + (coloured == 0 ? ", but ignore has one" : "") +
                          "; give one to all or to none");
}

Image LabelKey::read(const std::string& path) const {
  const std::vector<uint8_t> bytes = read_bytes(path);
  const PngKind kind = png_kind(bytes, path);
  if (kind == PngKind::grey || (kind == PngKind::palette && of_colour_.empty()))
    return by_number(decode_index_png(bytes, path), path);
  if (of_colour_.empty())
    fail("label_key", path +
                          ": an RGB label map, but the classes have no colours; write red, green and blue "
                          "behind each name in the class file, or use PNGs that hold numbers");
  return by_colour(decode_image(bytes.data(), bytes.size(), path), path);
}

Image LabelKey::by_number(const Image& numbers, const std::string& path) const {
  Image labels = numbers;
  for (size_t i = 0; i < labels.pixels.size(); ++i) {
    const int label = of_number_[numbers.pixels[i]];
    if (label < 0)
      fail("label_key", path + ": " + at(numbers, i) + " has the label " + std::to_string(numbers.pixels[i]) +
                            ", need 0 to " + std::to_string(entries_ - 1) + " or 255 (ignored)");
    labels.pixels[i] = uint8_t(label);
  }
  return labels;
}

Image LabelKey::by_colour(const Image& picture, const std::string& path) const {
  Image labels(picture.width, picture.height, 1);
  auto last = of_colour_.end();
  for (size_t i = 0; i < labels.pixels.size(); ++i) {
    const uint8_t* rgb = &picture.pixels[3 * i];
    if (last == of_colour_.end() || last->first != packed(rgb)) last = of_colour_.find(packed(rgb));
    if (last == of_colour_.end())
      fail("label_key", path + ": " + at(picture, i) + " has the colour " + text_of(rgb) +
                            ", which no class has; add it to the class file, as \"ignore " + text_of(rgb) +
                            "\" if it does not count");
    labels.pixels[i] = last->second;
  }
  return labels;
}

LabelKey read_class_file(const std::string& path) {
  std::vector<LabelKey::Entry> entries;
  for (const std::string& line : read_lines(path)) {
    std::istringstream stream(line);
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    const auto is_byte = [](const std::string& word) {
      return word.size() <= 3 &&
             std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; }) &&
             std::stoi(word) <= 255;
    };
    LabelKey::Entry entry;
    if (words.size() > 3 && std::all_of(words.end() - 3, words.end(), is_byte)) {
      const auto byte = [&](size_t from_end) { return uint8_t(std::stoi(words[words.size() - from_end])); };
      entry.colour = Rgb{byte(3), byte(2), byte(1)};
      words.resize(words.size() - 3);
    }
    for (const std::string& word : words) entry.name += (entry.name.empty() ? "" : " ") + word;
    if (!entry.name.empty()) entries.push_back(entry);
  }
  return LabelKey(entries, path);
}

}  // namespace pursuit::data
