#pragma once
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "cuda/runtime.h"

// Test cases that need more than the program itself. Without it they count as skipped, never as passed. They
// fail instead with `unit_tests --no-skip`, unless their suite is excluded (`-tse=data`), and if
// $PURSUIT_MAY_SKIP is set and does not list their suite (CI sets "gpu,gpu-ranks").
inline bool skips(const std::string& suite, bool missing) {
  const char* set = std::getenv("PURSUIT_MAY_SKIP");
  return missing && (!set || ("," + std::string(set) + ",").find("," + suite + ",") != std::string::npos);
}
#define NEEDS(suite, missing) doctest::test_suite(suite) * doctest::skip(skips(suite, missing))

// A GPU, real or simulated.
#define GPU_TEST_CASE(name) TEST_CASE(name* NEEDS("gpu", !pursuit::cuda::available()))

// The value of PURSUIT_ALLOC: "pool", "raw" or "async". Tests of the pool are skipped for "raw".
inline std::string allocator() {
  const char* mode = std::getenv("PURSUIT_ALLOC");
  return mode ? mode : "pool";
}
#define POOL_TEST_CASE(name) TEST_CASE(name* NEEDS("pool", allocator() == "raw"))

// A data set in $PURSUIT_SHARED/data (default: ../shared/data).
inline std::string shared_data(const std::string& set) {
  const char* shared = std::getenv("PURSUIT_SHARED");
  return (std::filesystem::path(shared ? shared : "../shared") / "data" / set).string();
}
#define DATA_TEST_CASE(name, set) TEST_CASE(name* NEEDS("data", !std::filesystem::exists(shared_data(set))))
