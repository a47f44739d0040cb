#pragma once
#include <string>
#include <vector>

namespace pursuit::apps {

// Those of `asked` in the order of `known`, once each; all of them for "all". Throws Error that names the
// option and lists `known`.
std::vector<std::string> chosen(const std::string& option, const std::vector<std::string>& asked,
                                const std::vector<std::string>& known);

}  // namespace pursuit::apps
