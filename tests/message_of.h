#pragma once
#include <string>

#include "engine/base/error.h"

// The message of the Error that call() throws; "" if it throws none.
template <class Call> std::string message_of(const Call& call) {
  try {
    call();
  } catch (const pursuit::Error& e) {
    return e.what();
  }
  return "";
}
