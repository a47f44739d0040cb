#include "apps/training/checkpoint.h"
#include "tests/fuzz/checkpoint.h"
#include "tests/fuzz/route_toy.h"
#include "tests/fuzz/tensor_file.h"

namespace pursuit::fuzz {

namespace {

// Reads a checkpoint as `route eval` does.
void read(std::string_view input) {
  const auto loaded =
      apps::load_model<route::Config>(write_checkpoint(input), {.device = "cpu", .verify = false});
  const route::Instances one = route::test_instances(loaded.config.problem, 6, 1);
  route::decode(*loaded.model, one, 1, {.rrc = {2}, .augment = true}, [](int64_t) { return true; });
}

std::vector<std::string> seeds() {
  return {read_file(apps::checkpoint_path(toy_run(route::Kind::lehd))),
          read_file(apps::checkpoint_path(toy_run(route::Kind::pomo)))};
}

}  // namespace

const Target target{.read = read, .split = split_tensor_file, .join = join_tensor_file, .seeds = seeds};

}  // namespace pursuit::fuzz
