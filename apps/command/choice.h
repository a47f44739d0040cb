#pragma once
#include <string>
#include <vector>

namespace pursuit::apps {

// "; did you mean train?" where a name of the list is near the word, else nothing. `before` the name is shown
// too.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& known,
                         const std::string& before = "");

// Those of `asked` in the order of `known`, once each; all of them for "all". Throws Error that names the
// option and lists `known`.
std::vector<std::string> chosen(const std::string& option, const std::vector<std::string>& asked,
                                const std::vector<std::string>& known);

}  // namespace pursuit::apps
