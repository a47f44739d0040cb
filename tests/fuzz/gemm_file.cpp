#include "cuda/gemm_file.h"

#include "tests/fuzz/fuzz.h"

namespace pursuit::fuzz {

namespace {

constexpr const char* made_for = "GPU, cuBLASLt 1";

void read(std::string_view input) { cuda::read_gemm_choices(write("algorithms", input), made_for); }

std::vector<std::string> seeds() {
  const std::string path = path_of("seed");
  cuda::write_gemm_choices(path, {made_for, {{{1, -2, 3}, {~0ull, 2}}, {{4}, {5}}}});
  return {read_file(path)};
}

}  // namespace

const Target target{.read = read, .seeds = seeds};

}  // namespace pursuit::fuzz
