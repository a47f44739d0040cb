#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

// doctest's own, but for a mistyped folder, which would pass for data that is not there.
int main(int argc, char** argv) {
  const char* shared = std::getenv("PURSUIT_SHARED");
  if (shared && !std::filesystem::is_directory(shared)) {
    std::fprintf(stderr, "PURSUIT_SHARED is '%s', which is no folder\n", shared);
    return 2;
  }
  return doctest::Context(argc, argv).run();
}
