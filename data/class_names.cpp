#include "data/class_names.h"

#include <filesystem>
#include <map>

#include "data/dataset.h"

namespace pursuit::data {

std::vector<std::string> class_names(const std::string& folder, const std::vector<std::string>& classes) {
  for (const char* list : {"LOC_synset_mapping.txt", "synset_words.txt", "words.txt"}) {
    const std::filesystem::path path = std::filesystem::path(folder) / list;
    std::error_code error;
    if (folder.empty() || !std::filesystem::is_regular_file(path, error)) continue;
    std::map<std::string, std::string> words;
    for (const std::string& line : read_lines(path.string())) {
      const size_t space = line.find_first_of(" \t");
      if (space == std::string::npos) continue;
      const size_t word = line.find_first_not_of(" \t", space);
      if (word != std::string::npos)
        words[line.substr(0, space)] = line.substr(word, line.find(',', word) - word);
    }
    std::vector<std::string> names;
    for (const std::string& name : classes) {
      const auto found = words.find(name);
      names.push_back(found == words.end() ? name : found->second);
    }
    return names;
  }
  return {};
}

}  // namespace pursuit::data
