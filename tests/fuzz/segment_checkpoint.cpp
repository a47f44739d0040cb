#include "apps/segment/predictor.h"
#include "apps/study/loaded_model.h"
#include "apps/training/checkpoint.h"
#include "tests/fuzz/checkpoint.h"
#include "tests/fuzz/segment_toy.h"
#include "tests/fuzz/tensor_file.h"

namespace pursuit::fuzz {

namespace {

// Reads a checkpoint as `segment predict` does.
void read(std::string_view input) {
  const auto loaded =
      apps::load_model<segment::Config>(write_checkpoint(input), {.device = "cpu", .verify = false});
  segment::predictor_of(*loaded.model, loaded.config).classes_of(data::Image(40, 24, 3));
}

std::vector<std::string> seeds() { return {read_file(apps::checkpoint_path(toy_run()))}; }

}  // namespace

const Target target{.read = read, .split = split_tensor_file, .join = join_tensor_file, .seeds = seeds};

}  // namespace pursuit::fuzz
