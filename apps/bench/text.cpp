#include "apps/bench/text.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "apps/bench/measure.h"
#include "apps/bench/temporary_folder.h"
#include "apps/command/options.h"
#include "apps/run/json.h"
#include "apps/terminal/print.h"
#include "data/text/corpus.h"
#include "engine/base/error.h"
#include "engine/base/random.h"
#include "engine/cpu/parallel.h"

namespace pursuit::bench {

namespace {

namespace fs = std::filesystem;

struct Options {
  int64_t megabytes = 537, words = 204000;  // those of WikiText-103's training text
  int rounds = 3, threads = 0;
  bool json = false;
};

// The rank in letters, and two more: so a word of the text has 4.4 letters in the mean.
std::string spelled(int64_t rank) {
  std::string word = "en";
  for (; rank > 0; rank = (rank - 1) / 26) word += char('a' + (rank - 1) % 26);
  return word;
}

// Lines of 57 words whose frequencies fall with the inverse of their rank, as WikiText-103's do.
std::string drawn_text(const Options& o) {
  Random random(1);
  std::vector<std::string> words;
  for (int64_t rank = 1; rank <= o.words; ++rank) words.push_back(spelled(rank));
  const size_t bytes = size_t(o.megabytes) * 1000 * 1000;
  std::string text;
  text.reserve(bytes + 1000);
  while (text.size() < bytes) {
    for (int i = 0; i < 57; ++i)
      (text += words[size_t(std::exp(random.uniform() * std::log(double(o.words)))) - 1]) += ' ';
    text += '\n';
  }
  return text;
}

void write(const fs::path& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary);
  out << text << std::flush;
  if (!out) fail("bench", "cannot write " + file.string());
}

void run(const Options& o) {
  if (o.threads > 0) set_num_threads(o.threads);
  const TemporaryFolder folder;
  const std::string text = drawn_text(o);
  const double megabytes = double(text.size()) / 1e6;
  write(folder.path() / "train.txt", text);
  write(folder.path() / "valid.txt", spelled(1) + "\n");
  int64_t tokens = 0, vocabulary = 0;
  const auto number = [&] {
    const data::Corpus corpus = data::open_corpus(folder.path().string(), {});
    tokens = int64_t(corpus.train.ids.size());
    vocabulary = corpus.vocabulary.size();
  };
  const Measurement m = measure(number, {.steps = o.rounds, .seconds = 0});
  const double by_clock = megabytes / (m.median_ms / 1e3), by_processor = megabytes / (m.cpu_ms / 1e3);
  const double slowest = megabytes / (m.max_ms / 1e3), fastest = megabytes / (m.min_ms / 1e3);
  if (o.json)
    apps::print("{}\n",
                nlohmann::ordered_json{{"timed", "from a file in the page cache to vocabulary and token ids"},
                                       {"rounds", m.steps},
                                       {"megabytes", megabytes},
                                       {"tokens", tokens},
                                       {"vocabulary", vocabulary},
                                       {"threads", num_threads()},
                                       {"mb_per_s", by_clock},
                                       {"mb_per_s_min", slowest},
                                       {"mb_per_s_max", fastest},
                                       {"mb_per_processor_second", by_processor}}
                    .dump());
  else
    apps::print(
        "{:.0f} MB, {} tokens, {} words: {:.1f} MB/s ({:.1f} to {:.1f}) on {} threads, {:.1f} MB for each "
        "second of a processor\nTimed: from a file in the page cache to its vocabulary and token ids\n",
        megabytes, tokens, vocabulary, by_clock, slowest, fastest, num_threads(), by_processor);
}

}  // namespace

void add_text_command(CLI::App& app) {
  const auto o = std::make_shared<Options>();
  CLI::App* text = app.add_subcommand(
      "text",
      "Times the numbering of a text, as training does it without --cache: a file, which lies in the page "
      "cache, is read, its words are counted, and each becomes a number. The text is drawn, by default as "
      "long as WikiText-103's, with as many words. The result is the median of the rounds, after three or "
      "more that are not timed.");
  apps::add_number(*text, "--megabytes", o->megabytes, "Length of the text in megabytes",
                   apps::Range{1, 1e5});
  apps::add_number(*text, "--words", o->words, "Number of words to draw from", apps::Range{2, 1e8});
  apps::add_number(*text, "--rounds", o->rounds, "Number of timed rounds", apps::Range{1, 1000});
  apps::add_number(*text, "--threads", o->threads, "CPU threads (0: all)", apps::any_threads);
  text->add_flag("--json", o->json, "Print one JSON object");
  text->callback([o] { run(*o); });
}

}  // namespace pursuit::bench
