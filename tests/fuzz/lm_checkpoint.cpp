#include "apps/lm/commands.h"
#include "apps/training/checkpoint.h"
#include "data/text/prompt.h"
#include "tests/fuzz/checkpoint.h"
#include "tests/fuzz/lm_toy.h"
#include "tests/fuzz/quantised_run.h"
#include "tests/fuzz/tensor_file.h"

namespace pursuit::fuzz {

namespace {

// Reads a checkpoint as `lm generate` does.
void read(std::string_view input) {
  const auto loaded =
      apps::load_model<lm::Config>(write_checkpoint(input), {.device = "cpu", .verify = false});
  const data::Vocabulary words = lm::vocabulary(loaded.config);
  Random random(0);
  const auto text = nn::generate(*loaded.model, words.line_end(), data::encode_prompt("anna gave", words),
                                 {.count = 4}, random);
  words.decode(text);
}

std::vector<std::string> seeds() {
  const std::string run = toy_run();
  return {read_file(apps::checkpoint_path(run)),
          read_file(apps::checkpoint_path(quantised(run, lm::quantize)))};
}

}  // namespace

const Target target{.read = read, .split = split_tensor_file, .join = join_tensor_file, .seeds = seeds};

}  // namespace pursuit::fuzz
