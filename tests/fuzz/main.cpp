#include <stdlib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "engine/base/error.h"
#include "engine/cpu/parallel.h"
#include "tests/fuzz/fuzz.h"

// Defined by libFuzzer.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace pursuit::fuzz {

namespace {

namespace fs = std::filesystem;

// Set before anything allocates: every tensor is a separate block, so that out-of-bounds writes are detected.
__attribute__((constructor(101))) void allocate_singly() { setenv("PURSUIT_ALLOC", "raw", 1); }

struct Folder {
  fs::path path;
  Folder() {
    std::string name =
        fs::is_directory("/dev/shm") ? "/dev/shm/pursuit-fuzz-XXXXXX" : "/tmp/pursuit-fuzz-XXXXXX";
    if (!mkdtemp(name.data())) {
      std::perror(name.c_str());
      std::exit(1);
    }
    path = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

const fs::path& folder() {
  static const Folder f;
  return f.path;
}

using Generator = std::minstd_rand;

size_t below(Generator& random, size_t n) { return size_t(random()) % n; }

// Replaces one of the text's numbers by an edge case.
bool replace_number(std::string& text, Generator& random) {
  constexpr std::array numbers{"0",
                               "-1",
                               "1",
                               "2",
                               "3",
                               "255",
                               "256",
                               "65536",
                               "2147483647",
                               "2147483648",
                               "4294967296",
                               "9223372036854775807",
                               "9223372036854775808",
                               "1000000000",
                               "1.9",
                               "0.5",
                               "1e9",
                               "1e308",
                               "1e999",
                               "-0.0",
                               "null",
                               "true",
                               "[]",
                               "{}",
                               "\"\""};
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (text.empty()) return false;
  const auto begin = std::find_if(text.begin() + ptrdiff_t(below(random, text.size())), text.end(), is_digit);
  const auto end = std::find_if(begin, text.end(), [&](char c) { return !is_digit(c) && c != '.'; });
  if (begin == end) return false;
  text.replace(begin, end, numbers[below(random, numbers.size())]);
  return true;
}

void mutate(std::string& part, Generator& random) {
  if (below(random, 4) == 0 && replace_number(part, random)) return;
  const size_t size = part.size(), most = size + 64;
  part.resize(most);
  part.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(part.data()), size, most));
}

}  // namespace

std::string path_of(const std::string& name) { return (folder() / name).string(); }

std::string write(const std::string& name, std::string_view bytes) {
  const fs::path path = folder() / name;
  std::error_code ignored;
  fs::create_directories(path.parent_path(), ignored);
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (!file || std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size())
    std::perror(path.c_str()), std::exit(1);
  std::fclose(file);
  return path.string();
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace pursuit::fuzz

using namespace pursuit;

// `TARGET --seeds FOLDER` writes the target's own seeds there.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  set_num_threads(1);
  if (*argc != 3 || std::string((*argv)[1]) != "--seeds") return 0;
  // Hides the output of the training that creates a seed.
  if (!std::freopen("/dev/null", "w", stdout)) std::exit(1);
  int number = 0;
  if (fuzz::target.seeds)
    for (const std::string& seed : fuzz::target.seeds())
      std::ofstream((*argv)[2] + ("/seed" + std::to_string(number++)), std::ios::binary) << seed;
  std::exit(0);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    fuzz::target.read({reinterpret_cast<const char*>(data), size});
  } catch (const Error&) {
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  fuzz::Generator random(seed);
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  fuzz::Parts parts;
  if (!fuzz::target.split)
    parts = {std::string(input)};
  else if (fuzz::below(random, 8) > 0)
    parts = fuzz::target.split(input);
  if (parts.empty()) return LLVMFuzzerMutate(data, size, most);
  fuzz::mutate(parts[fuzz::below(random, parts.size())], random);
  const std::string output = fuzz::target.join ? fuzz::target.join(parts) : parts[0];
  if (output.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::copy(output.begin(), output.end(), data);
  return output.size();
}
