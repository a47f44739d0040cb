#pragma once
#include <optional>
#include <string>
#include <vector>

#include "engine/base/error.h"

// Names the values of an enum for options, recipes, config files and messages.
// Next to an enum E, define
//   inline std::vector<Choice<E>> choices_of(E) { return {{"minus", E::minus, "the published code"}, ...}; }
namespace pursuit {

template <class E> struct Choice {
  const char* name;
  E value;
  const char* help = "";
};

template <class E> std::vector<std::string> choice_names() {
  std::vector<std::string> names;
  for (const Choice<E>& c : choices_of(E{})) names.push_back(c.name);
  return names;
}

template <class E> const char* choice_name(E value) {
  for (const Choice<E>& c : choices_of(E{}))
    if (c.value == value) return c.name;
  return "?";
}

template <class E> std::optional<E> find_choice(const std::string& name) {
  for (const Choice<E>& c : choices_of(E{}))
    if (c.name == name) return c.value;
  return std::nullopt;
}

// "adamw, sgd"
template <class E> std::string choice_list() {
  std::string list;
  for (const Choice<E>& c : choices_of(E{})) list += (list.empty() ? "" : ", ") + std::string(c.name);
  return list;
}

// Throws Error that lists the valid names; `what` names the option or field.
template <class E> E choice_of(const std::string& what, const std::string& name) {
  const std::optional<E> found = find_choice<E>(name);
  if (!found) fail(what, "there is no '" + name + "'; known are " + choice_list<E>());
  return *found;
}

// "minus (the published code) or plus (the exact minimiser)"
template <class E> std::string choice_help() {
  const std::vector<Choice<E>> all = choices_of(E{});
  std::string text;
  for (size_t i = 0; i < all.size(); ++i) {
    text += (i == 0 ? "" : i + 1 < all.size() ? ", " : " or ") + std::string(all[i].name);
    if (*all[i].help) text += " (" + std::string(all[i].help) + ")";
  }
  return text;
}

}  // namespace pursuit
