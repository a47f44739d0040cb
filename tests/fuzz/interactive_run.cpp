#include "tests/fuzz/interactive_toy.h"
#include "tests/fuzz/run_folder.h"

namespace pursuit::fuzz {

namespace {

void read(std::string_view input) { read_run<segment::interactive::RunRecord>(input); }

std::vector<std::string> seeds() { return run_seeds(toy_run()); }

}  // namespace

const Target target{.read = read, .split = split_files, .join = join_files, .seeds = seeds};

}  // namespace pursuit::fuzz
