#pragma once
#include <stdexcept>
#include <string>

namespace pursuit {

// The exception of all Pursuit code: "[where] what is wrong: got X, need Y", then what to do.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] inline void fail(const std::string& where, const std::string& what) {
  throw Error("[" + where + "] " + what);
}

inline void check(bool ok, const char* where, const char* what) {
  if (!ok) fail(where, what);
}

}  // namespace pursuit
