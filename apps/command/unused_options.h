#pragma once
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace pursuit::apps {

// Options that change nothing beside others, each with the reason; see note_options.
struct UnusedOptions {
  std::vector<std::pair<std::string, std::string>> list = {};

  void add_if(bool unused, const char* why, std::initializer_list<const char*> options) {
    if (!unused) return;
    for (const char* option : options) list.emplace_back(option, why);
  }
};

}  // namespace pursuit::apps
