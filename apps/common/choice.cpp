#include "apps/common/choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "engine/error.h"

namespace pursuit::apps {

std::vector<std::string> chosen(const std::string& option, const std::vector<std::string>& asked,
                                const std::vector<std::string>& known) {
  if (asked == std::vector<std::string>{"all"}) return known;
  for (const std::string& name : asked)
    if (std::find(known.begin(), known.end(), name) == known.end())
      fail("eval",
           fmt::format("{}: there is no '{}'; known are {}, or all", option, name, fmt::join(known, ", ")));
  std::vector<std::string> names;
  std::copy_if(known.begin(), known.end(), std::back_inserter(names),
               [&](const std::string& k) { return std::count(asked.begin(), asked.end(), k) > 0; });
  return names;
}

}  // namespace pursuit::apps
