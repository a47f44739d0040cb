#include "data/class_names.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "data/dataset.h"
#include "engine/base/error.h"

namespace pursuit::data {

std::string class_name_list(const std::string& folder) {
  for (const char* list : {"LOC_synset_mapping.txt", "synset_words.txt", "words.txt"})
    if (const std::string path = folder + "/" + list; !folder.empty() && has_file(path)) return path;
  return "";
}

std::vector<std::string> class_names(const std::string& folder, const std::vector<std::string>& classes) {
  const std::string list = class_name_list(folder);
  if (list.empty()) return {};
  std::map<std::string, std::string> words;
  for (const std::string& line : read_lines(list)) {
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

bool is_wordnet_id(const std::string& name) {
  return name.size() == 9 && name[0] == 'n' &&
         std::all_of(name.begin() + 1, name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::vector<std::string> read_classes(const std::string& path) {
  const bool folder = has_folder(path);
  const std::string train = path + "/train";
  std::vector<std::string> classes =
      folder ? list_folder(has_folder(train) ? train : path).folders : read_lines(path);
  std::set<std::string> seen;
  for (std::string& name : classes) {
    const std::string first = name.substr(0, name.find_first_of(" \t"));
    if (is_wordnet_id(first)) name = first;
    if (!seen.insert(name).second)
      fail("classes", path + " names the class '" + name + "' twice; give every class its own name");
  }
  if (classes.empty())
    fail("classes", path + (folder ? " holds no class folders" : " holds no class, need one a line"));
  return classes;
}

}  // namespace pursuit::data
