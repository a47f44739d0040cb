#include "apps/classify/pipeline.h"
#include "apps/page/heatmap.h"
#include "apps/training/checkpoint.h"
#include "tests/fuzz/checkpoint.h"
#include "tests/fuzz/classify_toy.h"
#include "tests/fuzz/quantised_run.h"
#include "tests/fuzz/tensor_file.h"

namespace pursuit::fuzz {

namespace {

// Reads a checkpoint as `classify predict` does.
void read(std::string_view input) {
  const auto loaded =
      apps::load_model<classify::Config>(write_checkpoint(input), {.device = "cpu", .verify = false});
  const classify::Prediction p = classify::look_at(loaded, data::Image(20, 16, 3));
  apps::attention_pair(p.view, p.attention, p.grid, 32);
}

std::vector<std::string> seeds() {
  const std::string run = toy_run();
  return {read_file(apps::checkpoint_path(run)),
          read_file(apps::checkpoint_path(quantised(run, classify::quantize)))};
}

}  // namespace

const Target target{.read = read, .split = split_tensor_file, .join = join_tensor_file, .seeds = seeds};

}  // namespace pursuit::fuzz
