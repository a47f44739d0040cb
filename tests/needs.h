#pragma once
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "cuda/runtime.h"

// Test cases that need more than the program itself. Where it is missing they count as skipped, never as
// passed; with `unit_tests --no-skip` they fail there, unless their suite is left out (`-tse=data`), and so
// they do where $PURSUIT_MAY_SKIP lists other suites ("gpu,gpu-ranks"; CI says so).
inline bool skips(const std::string& suite, bool missing) {
  const char* set = std::getenv("PURSUIT_MAY_SKIP");
  return missing && (!set || ("," + std::string(set) + ",").find("," + suite + ",") != std::string::npos);
}
#define NEEDS(suite, missing) doctest::test_suite(suite) * doctest::skip(skips(suite, missing))

// A GPU, real or simulated.
#define GPU_TEST_CASE(name) TEST_CASE(name* NEEDS("gpu", !pursuit::cuda::available()))

// What PURSUIT_ALLOC says: "pool", "raw" or "async". Tests of the pool have nothing to test without it.
inline std::string allocator() {
  const char* mode = std::getenv("PURSUIT_ALLOC");
  return mode ? mode : "pool";
}
#define POOL_TEST_CASE(name) TEST_CASE(name* NEEDS("pool", allocator() == "raw"))

// One of the data sets in $PURSUIT_SHARED/data, else in data of a folder `shared` beside the checkout.
inline std::string shared_data(const std::string& set) {
  const char* shared = std::getenv("PURSUIT_SHARED");
  return (std::filesystem::path(shared ? shared : "../shared") / "data" / set).string();
}
#define DATA_TEST_CASE(name, set) TEST_CASE(name* NEEDS("data", !std::filesystem::exists(shared_data(set))))
