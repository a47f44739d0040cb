#pragma once
#include <fmt/format.h>

#include <initializer_list>
#include <sstream>
#include <string>
#include <vector>

#include "apps/common/print.h"
#include "engine/error.h"

namespace pursuit::apps {

// Throws "--option is VALUE, need ..." unless `ok`. `app` names the program.
template <class T>
void check_range(const char* app, const char* option, T value, bool ok, const char* need) {
  if (ok) return;
  std::ostringstream text;
  text << "--" << option << " is " << value << ", need " << need;
  fail(app, text.str());
}

// Throws with the list of known words unless `value` is one of them.
inline void check_word(const char* app, const char* option, const std::string& value,
                       std::initializer_list<const char*> known) {
  std::string list;
  for (const char* k : known) {
    if (value == k) return;
    list += (list.empty() ? "" : ", ") + std::string(k);
  }
  fail(app, std::string("--") + option + " is '" + value + "', need one of " + list);
}

// Throws unless the data has as many classes as the model `knows`; other names are noted on stderr.
inline void check_classes(const std::vector<std::string>& has, const std::vector<std::string>& knows) {
  if (has.size() != knows.size())
    fail("eval",
         fmt::format("the data has {} classes, the model was trained on {}; it cannot be scored on them",
                     has.size(), knows.size()));
  if (has != knows)
    note("note: the data's classes have other names than the model's; they are taken by number\n");
}

}  // namespace pursuit::apps
