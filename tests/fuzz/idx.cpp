#include <algorithm>

#include "data/dataset.h"
#include "tests/fuzz/fuzz.h"

namespace pursuit::fuzz {

namespace {

void read(std::string_view input) {
  const auto set = data::open_idx(write_folder("idx", input), data::Split::train);
  for (int64_t i = 0; i < std::min<int64_t>(set->size(), 3); ++i) set->get(i);
}

std::vector<std::string> seeds() {
  using namespace std::string_literals;
  const std::string images = "\0\0\x08\x03\0\0\0\x02\0\0\0\x03\0\0\0\x04"s + std::string(24, '\x7f'),
                    labels = "\0\0\x08\x01\0\0\0\x02\x01\x09"s;
  return {input_of({{"train-images-idx3-ubyte", images},
                    {"train-labels-idx1-ubyte", labels},
                    {"classes.txt", "a\nb"}}),
          join_files({"train-images-idx3-ubyte.gz", images, "train-labels-idx1-ubyte.gz", labels})};
}

}  // namespace

const Target target{.read = read, .split = split_files, .join = join_files, .seeds = seeds};

}  // namespace pursuit::fuzz
