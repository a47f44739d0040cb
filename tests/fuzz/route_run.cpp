#include "tests/fuzz/route_toy.h"
#include "tests/fuzz/run_folder.h"

namespace pursuit::fuzz {

namespace {

void read(std::string_view input) { read_run<route::RunRecord>(input); }

std::vector<std::string> seeds() { return run_seeds(toy_run(route::Kind::lehd)); }

}  // namespace

const Target target{.read = read, .split = split_files, .join = join_files, .seeds = seeds};

}  // namespace pursuit::fuzz
