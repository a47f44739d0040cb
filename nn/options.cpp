#include "nn/options.h"

#include <algorithm>

namespace pursuit::nn {

void check_option(const char* where, const Option& option, const OptionValue& value) {
  // An integer is a valid value of a real option.
  const bool whole = std::holds_alternative<int64_t>(value) && std::holds_alternative<double>(option.value);
  if (value.index() != option.value.index() && !whole)
    fail(where, "option " + option.name + " has a value of another type, need " + option.help);
  if (const auto* word = std::get_if<std::string>(&value);
      word && std::find(option.words.begin(), option.words.end(), *word) == option.words.end())
    fail(where, "option " + option.name + " is '" + *word + "', need " + option.help);
  const bool number =
      std::holds_alternative<int64_t>(option.value) || std::holds_alternative<double>(option.value);
  if (number && !option.range.holds(number_of<double>(where, option.name, value)))
    fail(where, "option " + option.name + " is out of range, need " + option.range.text());
}

}  // namespace pursuit::nn
