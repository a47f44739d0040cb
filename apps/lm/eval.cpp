#include <fmt/format.h>

#include <algorithm>

#include "apps/command/choice.h"
#include "apps/lm/commands.h"
#include "apps/lm/pipeline.h"
#include "apps/lm/results.h"
#include "apps/study/kept_results.h"
#include "apps/study/reproduce.h"
#include "apps/terminal/print.h"
#include "apps/terminal/progress.h"
#include "apps/terminal/signals.h"
#include "apps/training/provenance.h"
#include "apps/training/step_memory.h"
#include "data/fingerprint.h"

namespace pursuit::lm {

namespace {

// The files of a split, each with words swapped.
std::vector<data::TextFile> attacked(const std::vector<data::TextFile>& files,
                                     const data::WordSwapOptions& options, data::WordSwap& counts) {
  std::vector<data::TextFile> out;
  for (const data::TextFile& file : files) {
    data::WordSwap swap = data::swap_words(file.text, options);
    counts.words += swap.words;
    counts.swapped += swap.swapped;
    for (const auto& [token, count] : swap.tokens) counts.tokens[token] += count;
    const auto text = std::make_shared<std::string>(std::move(swap.text));
    out.push_back({file.name + " with swapped words", *text, 0, 0, text});
  }
  return out;
}

// How many swapped words stand in tokens that the vocabulary lacks.
int64_t unknown(const data::WordSwap& swap, const data::Vocabulary& vocabulary) {
  int64_t count = 0;
  for (const auto& [token, times] : swap.tokens)
    if (!vocabulary.is_bytes() && vocabulary.find(token) < 0) count += times;
  return count;
}

// Throws Error unless the model knows the word that is put in the place of others: any other is easily
// predicted.
void check_replacement(const std::string& word, const data::Vocabulary& vocabulary) {
  if (word.find_first_of(" \t\r\n") != word.npos || word.empty())
    fail("eval", fmt::format("--swap-word '{}' is no word", word));
  if (vocabulary.is_bytes()) return;
  const int64_t id = vocabulary.find(word);
  if (id < 0)
    fail("eval",
         fmt::format("--swap-word {} is none of the {} words of the run's vocabulary and would be <unk>, "
                     "which is easily predicted; choose one of them",
                     word, vocabulary.size()));
  if (id == vocabulary.unknown() || id == vocabulary.line_end())
    fail("eval", fmt::format("--swap-word {} is a mark of the vocabulary, no word; choose another", word));
}

std::string describe(const data::WordSwapOptions& o) {
  return fmt::format("{}, rate {}, {}, seed {}", o.replacement, o.rate,
                     o.keep_stop_words ? "NLTK's stop words kept" : "stop words swapped too", o.seed);
}

// What was asked for beside windows and swapped words, as far as results depend on it.
std::string arguments(const EvalOptions& o) {
  std::string text = "--split " + o.split;
  if (!o.data.empty()) text += " --data " + apps::quoted(o.data);
  if (o.limit > 0) text += fmt::format(" --limit {}", o.limit);
  if (o.load.weights) text += std::string(" --weights ") + choice_name(*o.load.weights);
  if (o.load.dtype) text += fmt::format(" --dtype {}", name_of(*o.load.dtype));
  return text;
}

std::string swap_arguments(const data::WordSwapOptions& o) {
  return fmt::format(" --word-swap --swap-rate {} --swap-word {} --keep-stop-words {} --seed {}", o.rate,
                     apps::quoted(o.replacement), o.keep_stop_words, o.seed);
}

class Evaluation {
 public:
  explicit Evaluation(const EvalOptions& options)
      : options_(options),
        kept_(options.checkpoint),
        split_(data::text_split(options.split)),
        run_(apps::run_id(options.checkpoint)),  // before the weights, which another training may replace
        loaded_(apps::load_model<Config>(options.checkpoint, options.load)),
        config_(loaded_.config),
        words_(vocabulary(config_)),
        windows_{choice_name(config_.rows)} {
    if (!options.windows.empty())
      windows_ = apps::chosen("--window", options.windows, {"blocks", "documents", "sliding"});
    if (options.word_swap) check_replacement(options.swap.replacement, words_);
    if (!options.data.empty()) config_.data = options.data;
    if (options.batch_size > 0) config_.eval_batch_size = options.batch_size;
    apps::require_memory("eval", device_from_name(config_.device), "--batch-size",
                         [&] { evaluate_on_shapes(*loaded_.model, config_); });
    source_ = data::open_text(config_.data);
    files_of(source_, split_, config_);
  }

  int run() {
    apps::catch_stop_signals();
    const std::vector<data::TextFile>& files = source_.split(split_);
    bool done = evaluate(files, "");
    if (done && options_.word_swap) {
      data::WordSwap counts;
      const auto swapped = attacked(files, options_.swap, counts);
      if (!options_.quiet)
        apps::note("{} of the split's {} words were swapped ({:.2f} %), {} of them became <unk>\n",
                   counts.swapped, counts.words,
                   100 * double(counts.swapped) / double(std::max<int64_t>(counts.words, 1)),
                   unknown(counts, words_));
      done = evaluate(swapped, describe(options_.swap));
    }
    if (!results_.empty()) print();
    return kept_.finish(done, !results_.empty(), write_report);
  }

 private:
  bool evaluate(const std::vector<data::TextFile>& files, const std::string& attack) {
    data::Tokens tokens = data::encode(files, source_.layout, words_);
    data::check_same_language(tokens, words_, config_.unknown_share, files[0].name);
    tokens = data::first_tokens(tokens, options_.limit);
    for (const std::string& window : windows_) {
      apps::Progress bar(window + (attack.empty() ? "" : ", words swapped"), 0, int64_t(tokens.ids.size()),
                         {.quiet = options_.quiet, .unit = "tokens"});
      int64_t last = 0;
      const Tick tick = [&](int64_t count) {
        bar.update(count, count - last);
        last = count;
      };
      Totals s;
      if (window != "sliding") {
        config_.rows = choice_of<Rows>("window", window);
        data::TextBatches rows(tokens, words_.line_end(), evaluation_rows(config_));
        s = evaluate_blocks(*loaded_.model, rows, tick);
      } else {
        s = evaluate_sliding(*loaded_.model, tokens.ids, words_.line_end(), config_.eval_batch_size, tick);
      }
      if (apps::stop_requested()) return false;
      Results r;
      static_cast<apps::Conditions&>(r) =
          apps::conditions(config_, loaded_.weights, loaded_.state.step, run_);
      r.data = data_name(config_);
      r.fingerprint = data::fingerprint(source_.split(split_), config_.data);
      r.count = s.tokens;
      r.options = arguments(options_) + (attack.empty() ? "" : swap_arguments(options_.swap));
      r.split = options_.split;
      r.window = window;
      r.attack = attack;
      r.loss = s.loss();
      results_.push_back(std::move(r));
      kept_.add([&](const std::string& folder) { apps::add_evaluation(folder, results_.back()); });
    }
    return true;
  }

  void print() const {
    if (!options_.json) {
      apps::print("{}", apps::Lines{apps::to_text(to_table(results_))});
      return;
    }
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (const Results& r : results_) json.push_back(to_json(r));
    apps::print("{}\n", json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  }

  const EvalOptions& options_;
  apps::KeptResults kept_;
  data::TextSplit split_;
  std::string run_;
  apps::LoadedModel<Config> loaded_;
  Config config_;
  data::Vocabulary words_;
  std::vector<std::string> windows_;
  data::TextSource source_;
  std::vector<Results> results_;
};

}  // namespace

int eval(const EvalOptions& options) { return Evaluation(options).run(); }

}  // namespace pursuit::lm
