#pragma once
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace pursuit::data {

// The words of a text, one after the other. Errors begin with `place`, the file and the line.
class Words {
 public:
  Words(std::string_view text, std::string_view separators, std::string place)
      : rest_(text), separators_(separators), place_(std::move(place)) {
    skip();
  }

  bool done() const { return rest_.empty(); }
  std::string_view peek() const { return rest_.substr(0, rest_.find_first_of(separators_)); }
  std::string_view word(const char* what) {
    if (done()) reject(std::string("it ends where ") + what + " is expected");
    const std::string_view w = peek();
    rest_.remove_prefix(w.size());
    skip();
    return w;
  }
  void expect(std::string_view wanted) {
    const std::string_view got = word(std::string(wanted).c_str());
    if (got != wanted) reject("got " + quoted(got) + ", need '" + std::string(wanted) + "'");
  }
  double number(const char* what) { return parsed(word(what), what, "a number"); }
  int64_t integer(const char* what) {  // also as 80.0
    const std::string_view w = word(what);
    const double value = parsed(w, what, "a whole number");
    if (!(std::abs(value) < 1e15 && value == std::trunc(value)))
      reject(std::string("got ") + quoted(w) + " as " + what + ", need a whole number");
    return int64_t(value);
  }

  [[noreturn]] void reject(const std::string& what) const { fail("routing", place_ + ": " + what); }
  static std::string quoted(std::string_view word) {
    return "'" + printable(word.substr(0, 40)) + (word.size() > 40 ? "...'" : "'");
  }

 private:
  void skip() { rest_.remove_prefix(std::min(rest_.find_first_not_of(separators_), rest_.size())); }
  double parsed(std::string_view w, const char* what, const char* kind) const {
    double value = 0;
    const auto [end, error] = std::from_chars(w.data(), w.data() + w.size(), value);
    if (error != std::errc() || end != w.data() + w.size())
      reject(std::string("got ") + quoted(w) + " as " + what + ", need " + kind);
    return value;
  }

  std::string_view rest_, separators_;
  std::string place_;
};

}  // namespace pursuit::data
