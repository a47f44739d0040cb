#include <CLI/CLI.hpp>

#include "apps/command/options.h"
#include "apps/lm/commands.h"
#include "apps/lm/results.h"
#include "apps/study/inspect_command.h"
#include "apps/study/program.h"

namespace {

using namespace pursuit;
using namespace pursuit::lm;

void add_eval(apps::Program<RunRecord>& program) {
  const auto [command, e] = program.add("eval", "Measure perplexity, also of contaminated text", lm::eval);
  apps::add_eval_options(command, e, "Windows per batch (0: the run's)", {.simulated = true});
  command.add_option("--data", e.data, "Another text, in the run's vocabulary (default: the run's)");
  command.add_option("--split", e.split, "Split to evaluate: train, valid or test")->capture_default_str();
  apps::add_names(command, "--window", e.windows, choice_names<Window>(),
                  "Context of the predictions: " + choice_help<Window>() +
                      "; several, or all (default: as trained). A document of WikiText begins at a heading "
                      "' = Title = ' after an empty line; every line of the built-in grammar and every file "
                      "of other text is one");
  std::vector<std::string> changes;
  for (const Choice<data::WordChange>& change : choices_of(data::WordChange{})) {
    changes.push_back(std::string("--") + change.name);
    command.add_flag_callback(
        std::string("--") + change.name,
        [&changes = e.changes, value = change.value] { changes.insert(value); },
        std::string("Also evaluate changed text; before tokenization ") + change.help);
  }
  apps::add_number(command, "--swap-rate", e.swap.rate,
                   "Share of each line's words to change, at least one word per line", apps::above(0, 1));
  command
      .add_option("--swap-word", e.swap.replacement,
                  "Replacement of the swapped words, a word of the vocabulary")
      ->capture_default_str();
  command
      .add_option("--keep-stop-words", e.swap.keep_stop_words,
                  "Never change NLTK's English stop words, which are lower-case (\"The\" is no stop word)")
      ->check(apps::boolean)
      ->capture_default_str();
  apps::add_number(command, "--seed", e.swap.seed, "Seed of the changes", apps::any_seed);
  apps::refuse_without_effect(command, {{{"--swap-rate", "--keep-stop-words", "--seed"}, changes},
                                        {{"--swap-word"}, {"--word-swap"}}});
  apps::add_number(command, "--limit", e.limit, "Evaluate on this many tokens, from the beginning (0: all)",
                   apps::any_count);
}

void add_generate(apps::Program<RunRecord>& program) {
  const auto [command, g] = program.add("generate", "Write text", generate_text);
  nn::SamplingOptions& sampling = g.generation.sampling;
  apps::add_load_options(command, g.checkpoint, g.load, {.simulated = true});
  command.add_option("--prompt", g.prompt, "Start of the text, words separated by spaces");
  apps::add_number(command, "--tokens", g.generation.count, "Words (or bytes) to write", apps::Range{1, 1e9});
  apps::add_number(command, "--temperature", sampling.temperature,
                   "Sampling temperature (0: always the most probable word)", apps::Range{0, 1e6});
  apps::add_number(command, "--top-k", sampling.top_k, "Sample from the k most probable words (0: all)",
                   apps::any_count);
  apps::add_number(command, "--top-p", sampling.top_p,
                   "Sample from the fewest words with this total probability", apps::above(0, 1));
  apps::add_number(command, "--seed", g.seed, "Seed of the sampling", apps::any_seed);
  command.add_flag("--no-unknown", g.no_unknown, "Never write <unk>");
  command.add_flag("--no-cache", g.no_cache, "No key-value cache: recompute the whole window for every word");
}

void add_inspect(apps::Program<RunRecord>& program) {
  const auto [command, i] = program.add(
      "inspect", "Compute entropy, query-key eigenvalues, signal propagation and kernel PCA of every head",
      inspect_run);
  apps::add_inspect_options(command, i, "windows", {.simulated = true});
  command.add_option("--split", i.split, "Split to take windows from: train, valid or test")
      ->capture_default_str();
}

void add_quantize(apps::Program<RunRecord>& program) {
  const auto [command, q] =
      program.add("quantize", "Make a run with int8 weights and activations of a trained one", lm::quantize);
  apps::add_quantize_options(command, q, "windows");
}

int run(std::vector<std::string> args) {
  apps::Program<RunRecord> program("Trains and studies language models whose attention can be made robust.",
                                   "Weights as safetensors, by the parameters' names");
  program.add_train("Train a transformer language model", args, train);
  add_eval(program);
  add_generate(program);
  add_quantize(program);
  add_inspect(program);
  program.add_study(run);
  return program.run(std::move(args));
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, run); }
