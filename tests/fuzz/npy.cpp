#include "data/npy.h"

#include <cstring>

#include "engine/ops.h"
#include "tests/fuzz/fuzz.h"

namespace pursuit::fuzz {

using pursuit::data::load_npy, pursuit::data::save_npy;

namespace {

constexpr size_t before = 10;  // magic, version and the header's length in 16 bits

void read(std::string_view input) { load_npy(write("file.npy", input)); }

// Splits a file of version 1 into header and data.
Parts split(std::string_view input) {
  uint16_t size = 0;
  if (input.size() < before || input[6] != 1) return {};
  std::memcpy(&size, input.data() + 8, sizeof size);
  if (size > input.size() - before) return {};
  return {std::string(input.substr(before, size)), std::string(input.substr(before + size))};
}

std::string join(const Parts& parts) {
  const uint16_t size = uint16_t(parts[0].size());
  const std::string length(reinterpret_cast<const char*>(&size), sizeof size);
  return std::string("\x93NUMPY\x01\x00", 8) + length + parts[0] + parts[1];
}

std::vector<std::string> seeds() {
  const std::string path = path_of("seed.npy");
  std::vector<std::string> all;
  for (const DType d : {DType::f32, DType::f64, DType::i32, DType::u8}) {
    save_npy(path, from_vector(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3}).to(d));
    all.push_back(read_file(path));
  }
  return all;
}

}  // namespace

const Target target{.read = read, .split = split, .join = join, .seeds = seeds};

}  // namespace pursuit::fuzz
