#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

// doctest's main, which also rejects a mistyped PURSUIT_SHARED; tests would take it for missing data.
int main(int argc, char** argv) {
  const char* shared = std::getenv("PURSUIT_SHARED");
  if (shared && !std::filesystem::is_directory(shared)) {
    std::fprintf(stderr, "PURSUIT_SHARED is '%s', which is no folder\n", shared);
    return 2;
  }
  return doctest::Context(argc, argv).run();
}
