#include <algorithm>

#include "data/dataset.h"
#include "tests/fuzz/fuzz.h"

namespace pursuit::fuzz {

namespace {

void read(std::string_view input) {
  const auto set = data::open_cifar10(write_folder("cifar10", input), data::Split::train, {});
  for (int64_t i = 0; i < std::min<int64_t>(set->size(), 3); ++i) set->get(i);
}

std::vector<std::string> seeds() {
  std::string record(3073, '\x40');
  record[0] = 3;
  return {input_of({{"data_batch_1.bin", record + record},
                    {"batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n"}}),
          input_of({{"data_batch_1.bin", record}, {"data_batch_2.bin", record}})};
}

}  // namespace

const Target target{.read = read, .split = split_files, .join = join_files, .seeds = seeds};

}  // namespace pursuit::fuzz
