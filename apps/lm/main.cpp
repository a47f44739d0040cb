#include <CLI/CLI.hpp>

#include "apps/command/options.h"
#include "apps/lm/commands.h"
#include "apps/study/program.h"

namespace {

using namespace pursuit;
using namespace pursuit::lm;

void add_eval(CLI::App& app, EvalOptions& e, int& code) {
  CLI::App* command = app.add_subcommand("eval", "Perplexity, also with swapped words");
  apps::add_load_options(*command, e.checkpoint, e.load);
  command->add_option("--data", e.data, "Another text, in the run's vocabulary (default: the run's)");
  command->add_option("--split", e.split, "train, valid or test")->capture_default_str();
  command
      ->add_option(
          "--window", e.windows,
          "blocks: the text cut into windows; documents: a window never reaches into another one; sliding: a "
          "window that moves on by one token, as published; or all (default: as trained). A document of "
          "WikiText begins at a heading ' = Title = ' after an empty line, of other text with a file, of the "
          "built-in grammar with a line")
      ->delimiter(',');
  command->add_flag("--word-swap", e.word_swap, "Also with words swapped in the text, before it is split");
  command->add_option("--swap-rate", e.swap.rate, "Share of a line's words, at least one word a line")
      ->check(apps::within(apps::above(0, 1)))
      ->capture_default_str();
  command
      ->add_option("--swap-word", e.swap.replacement, "What stands in their place, a word of the vocabulary")
      ->capture_default_str();
  command
      ->add_option("--keep-stop-words", e.swap.keep_stop_words,
                   "Never swap NLTK's English stop words (all lower-case: \"The\" is none)")
      ->check(apps::boolean)
      ->capture_default_str();
  command->add_option("--seed", e.swap.seed, "Seed of the swap")
      ->check(apps::within(apps::any_seed))
      ->capture_default_str();
  command->add_option("--limit", e.limit, "Evaluate on this many tokens, from the beginning (0: all)")
      ->check(apps::within(apps::any_count));
  command->add_option("--batch-size", e.batch_size, "Windows per batch (0: the run's)")
      ->check(apps::within(apps::any_batch));
  command->add_flag("--quiet", e.quiet, "No progress on stderr");
  command->add_flag("--json", e.json, "Print JSON instead of a table");
  command->callback([&] { code = eval(e); });
}

void add_generate(CLI::App& app, GenerateOptions& g, int& code) {
  CLI::App* command = app.add_subcommand("generate", "Write text");
  apps::add_load_options(*command, g.checkpoint, g.load);
  command->add_option("--prompt", g.prompt, "What the text begins with; words with spaces between");
  command->add_option("--tokens", g.generation.count, "Words (or bytes) to write")
      ->check(apps::within(apps::Range{1, 1e9}))
      ->capture_default_str();
  command->add_option("--temperature", g.generation.sampling.temperature, "0: always the most probable word")
      ->check(apps::within(apps::Range{0, 1e6}))
      ->capture_default_str();
  command->add_option("--top-k", g.generation.sampling.top_k, "Of the k most probable words (0: all)")
      ->check(apps::within(apps::any_count))
      ->capture_default_str();
  command
      ->add_option("--top-p", g.generation.sampling.top_p,
                   "Of the fewest words with this probability together")
      ->check(apps::within(apps::above(0, 1)))
      ->capture_default_str();
  command->add_option("--seed", g.seed, "Seed")->check(apps::within(apps::any_seed))->capture_default_str();
  command->add_flag("--no-unknown", g.no_unknown, "Never write <unk>");
  command->add_flag("--no-cache", g.no_cache, "Read the whole window anew for every word");
  command->callback([&] { code = generate_text(g); });
}

void add_inspect(CLI::App& app, InspectOptions& i, int& code) {
  CLI::App* command =
      app.add_subcommand("inspect", "Entropy, query-key eigenvalues and signal propagation of every head");
  apps::add_load_options(*command, i.checkpoint, i.load);
  command->add_option("--data", i.data, "Another text for the entropy (default: the run's)");
  command->add_option("--split", i.split, "train, valid or test")->capture_default_str();
  command->add_option("--sequences", i.sequences, "Windows for the entropy")
      ->check(apps::within(apps::Range{1, 1e9}))
      ->capture_default_str();
  command->add_flag("--json", i.json, "Print JSON instead of a table");
  command->callback([&] { code = inspect_run(i); });
}

int run(std::vector<std::string> args) {
  apps::Program<Config> program("Trains and studies language models whose attention can be made robust.");
  EvalOptions eval_options;
  GenerateOptions generate_options;
  InspectOptions inspect_options;
  program.add_train("Train a transformer language model", args, train);
  add_eval(program.app, eval_options, program.code);
  add_generate(program.app, generate_options, program.code);
  add_inspect(program.app, inspect_options, program.code);
  apps::add_compare_command(program.app, compare_runs);
  apps::add_export_command<Config>(program.app, "Weights as safetensors, by the parameters' names");
  apps::add_report_command(program.app, write_report);
  return program.run(std::move(args));
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, run); }
