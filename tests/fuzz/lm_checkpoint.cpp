#include "apps/lm/run.h"
#include "apps/training/checkpoint.h"
#include "tests/fuzz/checkpoint.h"
#include "tests/fuzz/lm_toy.h"
#include "tests/fuzz/tensor_file.h"

namespace pursuit::fuzz {

namespace {

// As `lm generate` does.
void read(std::string_view input) {
  const lm::LoadedModel loaded = lm::load_model(write_checkpoint(input), {.device = "cpu", .verify = false});
  Random random(0);
  const auto text = lm::generate(*loaded.model, loaded.vocabulary.line_end(),
                                 lm::encode_prompt("anna gave", loaded.vocabulary), {.count = 4}, random);
  loaded.vocabulary.decode(text);
}

std::vector<std::string> seeds() { return {read_file(apps::checkpoint_path(toy_run()))}; }

}  // namespace

const Target target{.read = read, .split = split_tensor_file, .join = join_tensor_file, .seeds = seeds};

}  // namespace pursuit::fuzz
