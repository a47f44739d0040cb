#include "apps/command/choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "engine/base/error.h"

namespace pursuit::apps {

namespace {

// Edit distance with insertions, deletions, substitutions and swaps of neighbours (optimal string alignment).
size_t edits(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i)
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

}  // namespace

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known,
                         const std::string& before) {
  constexpr size_t longest = 100;  // longer words get no suggestion
  if (word.size() > longest) return "";
  const std::string* nearest = nullptr;
  size_t fewest = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& name : known)
    if (const size_t n = edits(word, name); n < fewest) fewest = n, nearest = &name;
  return nearest ? fmt::format("; did you mean {}{}?", before, *nearest) : "";
}

std::string unknown_name(const std::string& word, const std::vector<std::string>& known) {
  if (word == "all" || std::find(known.begin(), known.end(), word) != known.end()) return "";
  return fmt::format("there is no '{}'{}; known are {}, or all", word, did_you_mean(word, known),
                     fmt::join(known, ", "));
}

std::vector<std::string> chosen(const std::string& option, const std::vector<std::string>& asked,
                                const std::vector<std::string>& known) {
  for (const std::string& name : asked)
    if (const std::string why = unknown_name(name, known); !why.empty()) fail("options", option + ": " + why);
  if (std::count(asked.begin(), asked.end(), "all") > 0) return known;
  std::vector<std::string> names;
  std::copy_if(known.begin(), known.end(), std::back_inserter(names),
               [&](const std::string& k) { return std::count(asked.begin(), asked.end(), k) > 0; });
  return names;
}

}  // namespace pursuit::apps
