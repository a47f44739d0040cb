#include "cuda/gemm_file.h"

#include <doctest/doctest.h>

#include <fstream>

#include "engine/base/error.h"
#include "tests/temporary_folder.h"

using namespace pursuit;
using cuda::GemmChoices;

namespace {

const std::string made_for = "A GPU, sm_90, 80 GiB, cuBLASLt 130100";

void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

}  // namespace

TEST_CASE("gemm file: what is written is read again") {
  const TemporaryFolder folder;
  const std::string path = folder.file("algorithms");
  GemmChoices choices{made_for, {}};
  choices.algorithms[{50432, 768, 192, -1}] = {~0ull, 0, 0x123456789abcdef};
  choices.algorithms[{2}] = {7};
  cuda::write_gemm_choices(path, choices);
  const GemmChoices read = cuda::read_gemm_choices(path, made_for);
  CHECK(read.made_for == made_for);
  CHECK(read.algorithms == choices.algorithms);
}

TEST_CASE("gemm file: anything else is refused in one line") {
  const TemporaryFolder folder;
  const std::string path = folder.file("algorithms"), kind = "pursuit gemm algorithms 1\n";
  const auto refused = [&](const std::string& text, const char* what) {
    write(path, text);
    CHECK_THROWS_WITH_AS(cuda::read_gemm_choices(path, made_for), doctest::Contains(what), Error);
  };
  std::string product = "1";
  for (int i = 1; i < 23 + 8; ++i) product += " 1";
  const std::string head = kind + made_for + "\n";
  write(path, head + product + "\n");
  CHECK(cuda::read_gemm_choices(path, made_for).algorithms.size() == 1);
  refused("", "does not begin with");
  refused("gemm\n", "does not begin with");
  refused(kind + "Another GPU\n", "was made for 'Another GPU', need 'A GPU, sm_90, 80 GiB, cuBLASLt 130100'");
  for (const std::string& line : {std::string(), product + " ", product + " 1", product.substr(2),
                                  product + "x", "9223372036854775808" + product.substr(1)})
    refused(head + line + "\n", "line 3 is not");
  refused(head + product + "\n" + product + "\n", "line 4 is not");  // twice
  CHECK_THROWS_WITH_AS(cuda::write_gemm_choices(folder.file("none/algorithms"), {}),
                       doctest::Contains("cannot write"), Error);
}
