#include "apps/study/reproduce.h"

#include <algorithm>
#include <cctype>
#include <cstring>

namespace pursuit::apps {

size_t count_differences(const nlohmann::ordered_json& of, const nlohmann::ordered_json& used) {
  size_t count = 0;
  for (const auto& [name, value] : used.items()) count += value != of.at(name);
  return count;
}

std::string train_command(const std::string& app, const std::string& folder, const std::string& recipe,
                          const nlohmann::ordered_json& of, const nlohmann::ordered_json& used) {
  std::string command =
      app + " train" + (recipe.empty() ? "" : " --recipe " + recipe) + " --out " + quoted(folder);
  for (const auto& [name, value] : used.items())
    if (value != of.at(name)) command += " --" + name + " " + quoted(option_text(value));
  return command;
}

std::string quoted(const std::string& word) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || strchr("-_./,=+:", c);
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
  std::string out = "'";
  for (char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace pursuit::apps
