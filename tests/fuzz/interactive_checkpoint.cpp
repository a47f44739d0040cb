#include "apps/study/loaded_model.h"
#include "apps/training/checkpoint.h"
#include "tests/fuzz/checkpoint.h"
#include "tests/fuzz/interactive_toy.h"
#include "tests/fuzz/tensor_file.h"

namespace pursuit::fuzz {

namespace {

// Reads a checkpoint as `segment interactive serve` does, and clicks.
void read(std::string_view input) {
  using segment::interactive::Config, segment::interactive::ClickedPicture;
  const auto loaded = apps::load_model<Config>(write_checkpoint(input), {.device = "cpu", .verify = false});
  // A larger input takes a fuzzer's time, and no other path.
  if (loaded.config.height * loaded.config.width > 128 * 128) return;
  ClickedPicture(*loaded.model, loaded.config, data::Image(40, 24, 3)).mask({{20, 5, true}, {39, 23, false}});
}

std::vector<std::string> seeds() { return {read_file(apps::checkpoint_path(toy_run()))}; }

}  // namespace

const Target target{.read = read, .split = split_tensor_file, .join = join_tensor_file, .seeds = seeds};

}  // namespace pursuit::fuzz
