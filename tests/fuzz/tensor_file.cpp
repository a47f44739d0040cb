#include "tests/fuzz/tensor_file.h"

#include <cstring>
#include <nlohmann/json.hpp>

namespace pursuit::fuzz {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* metadata = "__metadata__";

// The string values of a header's metadata; empty if there are none.
std::vector<std::string*> words_of(Json& header) {
  std::vector<std::string*> words;
  if (!header.is_object() || !header.contains(metadata) || !header[metadata].is_object()) return words;
  for (auto& word : header[metadata])
    if (word.is_string()) words.push_back(word.get_ptr<std::string*>());
  return words;
}

}  // namespace

Parts split_tensor_file(std::string_view input) {
  uint64_t size = 0;
  if (input.size() < sizeof size) return {};
  std::memcpy(&size, input.data(), sizeof size);
  if (size > input.size() - sizeof size) return {};
  Json header = Json::parse(input.substr(sizeof size, size), nullptr, false);
  if (header.is_discarded()) return {};
  Parts parts = {""};
  for (std::string* word : words_of(header)) {
    parts.push_back(*word);
    word->clear();
  }
  parts[0] = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  parts.emplace_back(input.substr(sizeof size + size));
  return parts;
}

std::string join_tensor_file(const Parts& parts) {
  std::string text = parts[0];
  if (Json header = Json::parse(text, nullptr, false); !header.is_discarded()) {
    const std::vector<std::string*> words = words_of(header);
    for (size_t i = 0; i < words.size() && i + 2 < parts.size(); ++i) *words[i] = parts[i + 1];
    text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  const uint64_t size = text.size();
  std::string output(reinterpret_cast<const char*>(&size), sizeof size);
  return output + text + parts.back();
}

}  // namespace pursuit::fuzz
