#pragma once
#include <string>
#include <vector>

namespace pursuit::apps {

// "; did you mean train?" if a known word is similar, else "". `before` is put before the suggested word.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& known,
                         const std::string& before = "");

// "" if the word is one of `known` or "all"; else what is wrong, with a suggestion and the list of `known`.
std::string unknown_name(const std::string& word, const std::vector<std::string>& known);

// The words of `asked` in the order of `known`, without repetitions; "all" stands for all of them. Throws
// Error that names the option and lists `known`.
std::vector<std::string> chosen(const std::string& option, const std::vector<std::string>& asked,
                                const std::vector<std::string>& known);

}  // namespace pursuit::apps
