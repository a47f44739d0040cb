#include "cuda/gemm_file.h"

#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <fstream>
#include <string_view>

#include "engine/base/error.h"

namespace pursuit::cuda {

namespace {

constexpr const char* kind = "pursuit gemm algorithms 1";

// Takes a number of the line's begin and the space after it.
template <class T> bool take(std::string_view& line, T& number, int base) {
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number, base);
  if (error != std::errc()) return false;
  line.remove_prefix(size_t(end - line.data()));
  if (line.empty()) return true;
  if (line[0] != ' ' || line.size() == 1) return false;
  line.remove_prefix(1);
  return true;
}

bool parse(std::string_view line, GemmChoices& choices) {
  GemmChoices::Product product;
  GemmChoices::Algorithm algorithm;
  for (int64_t& number : product)
    if (!take(line, number, 10)) return false;
  for (uint64_t& word : algorithm)
    if (!take(line, word, 16)) return false;
  return line.empty() && choices.algorithms.emplace(product, algorithm).second;
}

}  // namespace

GemmChoices read_gemm_choices(const std::string& path, const std::string& made_for) {
  GemmChoices choices{made_for, {}};
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line) || line != kind)
    fail("gemm", "'" + path + "' does not begin with the line '" + kind +
                     "'; delete it, and a run with PURSUIT_GEMM=timed writes it anew");
  if (!std::getline(file, line) || line != made_for)
    fail("gemm", "'" + path + "' was made for " + (line.size() < 200 ? "'" + line + "'" : "something else") +
                     ", need '" + made_for + "'; name another file in PURSUIT_GEMM_FILE");
  for (int number = 3; std::getline(file, line); ++number)
    if (!parse(line, choices))
      fail("gemm", "'" + path + "' line " + std::to_string(number) +
                       " is not 23 numbers of a new product and 8 words of its algorithm; delete the file");
  if (file.bad()) fail("gemm", "cannot read '" + path + "'");
  return choices;
}

void write_gemm_choices(const std::string& path, const GemmChoices& choices) {
  const std::string temporary = path + "." + std::to_string(getpid());
  std::ofstream file(temporary);
  file << kind << '\n' << choices.made_for << '\n';
  for (const auto& [product, algorithm] : choices.algorithms) {
    file << std::dec;
    for (int64_t number : product) file << number << ' ';
    file << std::hex;
    for (size_t i = 0; i < algorithm.size(); ++i)
      file << algorithm[i] << (i + 1 < algorithm.size() ? ' ' : '\n');
  }
  file.close();
  if (!file || std::rename(temporary.c_str(), path.c_str()) != 0) {
    std::remove(temporary.c_str());
    fail("gemm", "cannot write '" + path + "', which PURSUIT_GEMM_FILE names");
  }
}

}  // namespace pursuit::cuda
