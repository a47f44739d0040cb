#include "nn/generate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "apps/lm/commands.h"
#include "apps/terminal/print.h"
#include "apps/terminal/signals.h"
#include "apps/terminal/text.h"
#include "data/text/prompt.h"
#include "engine/base/streams.h"

namespace pursuit::lm {

int generate_text(const GenerateOptions& options) {
  nn::GenerationOptions generation = options.generation;
  const auto loaded = apps::load_model<Config>(options.checkpoint, options.load);
  if (loaded.config.masked())
    fail("generate", loaded.name +
                         " predicts hidden words from both sides and writes no text; give a run with "
                         "--objective causal");
  const data::Vocabulary words = vocabulary(loaded.config);
  generation.use_cache = !options.no_cache;
  generation.lines_stand_alone = lines_stand_alone(loaded.config);
  if (options.no_unknown && words.unknown() >= 0) generation.sampling.forbidden.push_back(words.unknown());
  if (options.no_unknown && words.unknown() < 0)
    apps::note("note: --no-unknown changes nothing: the run's vocabulary has no <unk>\n");
  if (const auto& s = generation.sampling; s.temperature == 0 && (s.top_k > 0 || s.top_p < 1))
    apps::note("note: --top-k and --top-p change nothing: --temperature 0 takes the most probable word\n");
  apps::catch_stop_signals("token");
  std::vector<int64_t> text = data::encode_prompt(options.prompt, words);
  if (const auto unknown = data::unknown_words(options.prompt, words); !unknown.empty())
    apps::note("note: the run's vocabulary lacks these words of the prompt, the model reads <unk>: {}\n",
               fmt::format("{}", fmt::join(unknown, " ")));
  std::string shown;
  // At byte level a UTF-8 character may take several tokens.
  const auto show = [&](bool all) {
    const std::string now = words.decode(text);
    const size_t end = all ? now.size() : now.size() - apps::unfinished_bytes(now);
    if (end <= shown.size()) return;
    apps::print("{}", apps::Lines{now.substr(shown.size(), end - shown.size())});
    if (std::fflush(stdout) != 0) throw std::system_error(errno, std::generic_category());
    shown = now.substr(0, end);
  };
  show(false);
  Random random(options.seed, streams::text.first);
  nn::generate(*loaded.model, words.line_end(), text, generation, random, [&](int64_t word) {
    text.push_back(word);
    show(false);
    return !apps::stop_requested();
  });
  show(true);
  if (!shown.ends_with('\n')) apps::print("\n");
  return apps::stop_requested() ? 1 : 0;
}

}  // namespace pursuit::lm
