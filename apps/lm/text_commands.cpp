#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "apps/common/files.h"
#include "apps/common/print.h"
#include "apps/common/signals.h"
#include "apps/common/text.h"
#include "apps/lm/commands.h"
#include "apps/lm/inspect.h"
#include "apps/training/provenance.h"
#include "apps/training/step_memory.h"
#include "data/fingerprint.h"
#include "engine/core/streams.h"

// `lm generate` and `lm inspect`.
namespace pursuit::lm {

int generate_text(const GenerateOptions& options) {
  GenerationOptions generation = options.generation;
  const LoadedModel loaded = load_model(options.checkpoint, options.load);
  const data::Vocabulary& vocabulary = loaded.vocabulary;
  generation.use_cache = !options.no_cache;
  generation.lines_stand_alone = lines_stand_alone(loaded.config);
  if (options.no_unknown && vocabulary.unknown() >= 0)
    generation.sampling.forbidden.push_back(vocabulary.unknown());
  apps::catch_stop_signals();
  std::vector<int32_t> text = encode_prompt(options.prompt, vocabulary);
  if (const auto words = unknown_words(options.prompt, vocabulary); !words.empty())
    apps::note("note: the run's vocabulary lacks these words of the prompt, the model reads <unk>: {}\n",
               fmt::format("{}", fmt::join(words, " ")));
  std::string shown;
  // Of bytes, a character may take several words.
  const auto show = [&](bool all) {
    const std::string now = vocabulary.decode(text);
    const size_t end = all ? now.size() : now.size() - apps::unfinished_bytes(now);
    if (end <= shown.size()) return;
    apps::print("{}", apps::Lines{now.substr(shown.size(), end - shown.size())});
    if (std::fflush(stdout) != 0) throw std::system_error(errno, std::generic_category());
    shown = now.substr(0, end);
  };
  show(false);
  Random random(options.seed, streams::text.first);
  generate(*loaded.model, vocabulary.line_end(), text, generation, random, [&](int32_t word) {
    text.push_back(word);
    show(false);
  });
  show(true);
  if (!shown.ends_with('\n')) apps::print("\n");
  return apps::stop_requested() ? 1 : 0;
}

int inspect_run(const InspectOptions& options) {
  const std::string run = apps::run_id(options.checkpoint);
  const LoadedModel loaded = load_model(options.checkpoint, options.load);
  Config config = loaded.config;
  if (!options.data.empty()) config.data = options.data;
  const data::TextSource source = data::open_text(config.data);
  const std::vector<data::TextFile>& files = files_of(source, data::text_split(options.split), config);
  data::TextBatches rows(data::encode(files, source.layout, loaded.vocabulary), loaded.vocabulary.line_end(),
                         evaluation_rows(config));
  apps::require_memory("inspect", loaded.model->embed_weight.device(), "--sequences", [&] {
    const int64_t windows = std::min(options.sequences, rows.rows());
    loaded.model->attention_entropy(
        empty({windows, config.context}, DType::i32, loaded.model->embed_weight.device()));
  });
  Inspection inspection = inspect(*loaded.model, rows, options.sequences);
  inspection.split = options.split;
  inspection.conditions = {.data = data_name(config),
                           .fingerprint = data::fingerprint(files, config.data),
                           .count = rows.tokens(),
                           .weights = loaded.weights,
                           .step = loaded.state.step,
                           .dtype = name_of(config.dtype),
                           .made_by = apps::provenance(config.device),
                           .run = run};
  const std::string json = to_json(inspection).dump();
  if (options.json)
    apps::print("{}\n", json);
  else
    apps::print("{}entropy of even attention {:.3f} nats over windows of {} tokens\n",
                apps::Lines{apps::to_text(to_table(inspection))}, inspection.even_entropy, inspection.tokens);
  if (std::filesystem::is_directory(options.checkpoint)) {
    apps::write_file_atomically((std::filesystem::path(options.checkpoint) / "inspect.json").string(),
                                json + "\n");
    write_report(options.checkpoint);
  }
  return 0;
}

}  // namespace pursuit::lm
