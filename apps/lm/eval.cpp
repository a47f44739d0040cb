#include <fmt/format.h>

#include <algorithm>

#include "apps/command/choice.h"
#include "apps/lm/commands.h"
#include "apps/lm/pipeline.h"
#include "apps/lm/results.h"
#include "apps/study/reproduce.h"
#include "apps/terminal/progress.h"
#include "apps/training/step_memory.h"
#include "data/fingerprint.h"

namespace pursuit::lm {

namespace {

struct ChangedText {
  data::WordChangeOptions how;
  std::vector<data::TextFile> files;
  data::ChangedWords counts;  // without their text
};

ChangedText changed_text(const std::vector<data::TextFile>& files, data::WordChangeOptions options) {
  ChangedText out{options, {}, {}};
  data::ChangedWords& counts = out.counts;
  for (const data::TextFile& file : files) {
    options.first_line = counts.next_line;
    data::ChangedWords changed = data::change_words(file.text, options);
    counts.next_line = changed.next_line;
    counts.words += changed.words;
    counts.changed += changed.changed;
    for (const auto& [token, count] : changed.tokens) counts.tokens[token] += count;
    const auto text = std::make_shared<std::string>(std::move(changed.text));
    out.files.push_back({file.name + " with changed words", *text, 0, text});
  }
  return out;
}

// The number of changed words whose token is not in the vocabulary.
int64_t unknown(const data::ChangedWords& changed, const data::Vocabulary& vocabulary) {
  int64_t count = 0;
  for (const auto& [token, times] : changed.tokens)
    if (!vocabulary.is_bytes() && vocabulary.find(token) < 0) count += times;
  return count;
}

// Throws Error unless the replacement is in the vocabulary: otherwise it becomes <unk>, which is easily
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

std::string describe(const data::WordChangeOptions& o) {
  const bool swap = o.change == data::WordChange::swap;
  return fmt::format("{}, rate {}, {}, seed {}", swap ? o.replacement : choice_name(o.change), o.rate,
                     o.keep_stop_words ? "NLTK's stop words kept"
                     : swap            ? "stop words swapped too"
                                       : "stop words too",
                     o.seed);
}

// The given options that results depend on, without windows and changes.
std::string arguments(const EvalOptions& o) {
  std::string text = "--split " + o.split;
  if (!o.data.empty()) text += " --data " + apps::quoted(o.data);
  if (o.limit > 0) text += fmt::format(" --limit {}", o.limit);
  if (const std::string how = o.load.arguments(); !how.empty()) text += " " + how;
  return text;
}

std::string change_arguments(const data::WordChangeOptions& o) {
  const std::string word =
      o.change == data::WordChange::swap ? " --swap-word " + apps::quoted(o.replacement) : "";
  return fmt::format(" --{} --swap-rate {}{} --keep-stop-words {} --seed {}", choice_name(o.change), o.rate,
                     word, o.keep_stop_words, o.seed);
}

class Evaluation : public apps::Evaluation<RunRecord> {
 public:
  explicit Evaluation(const EvalOptions& options)
      : apps::Evaluation<RunRecord>(options),
        options_(options),
        split_(data::text_split(options.split)),
        windows_(apps::chosen("--window", options.windows, choice_names<Window>())) {}

 private:
  void open() override {
    words_ = vocabulary(config_);
    if (windows_.empty()) windows_ = {choice_name(config_.rows)};
    if (config_.masked() && windows_ != std::vector<std::string>{"blocks"})
      fail("eval", loaded_.name + " predicts masked words of whole windows; leave --window out");
    if (config_.masked() && options_.limit > 0 && options_.limit < config_.context)
      fail("eval", fmt::format("--limit is {}, need 0 or at least {}: words are masked in whole windows",
                               options_.limit, config_.context));
    if (options_.changes.contains(data::WordChange::swap))
      check_replacement(options_.swap.replacement, words_);
    apps::require_memory("eval", device_from_name(config_.device), "--batch-size",
                         [&] { evaluate_on_shapes(*loaded_.model, config_); });
    source_ = data::open_text(config_.data);
    const std::vector<data::TextFile>& files = files_of(source_, split_, config_);
    for (const data::WordChange change : options_.changes) {
      data::WordChangeOptions how = options_.swap;
      how.change = change;
      changed_.push_back(changed_text(files, how));
      if (words_.unknown() < 0 && unknown(changed_.back().counts, words_) > 0)
        fail("eval", fmt::format("--{}: the vocabulary of {} has no <unk> for changed words; train with "
                                 "--min-count 2, so that it has one",
                                 choice_name(change), loaded_.name));
    }
  }

  bool measure() override {
    const std::vector<data::TextFile>& files = source_.split(split_);
    if (!evaluate(files, nullptr)) return false;
    for (const ChangedText& changed : changed_) {
      const data::ChangedWords& counts = changed.counts;
      if (!options_.quiet)
        apps::note("{}: {} of the split's {} words were {} ({:.2f} %), {} of them became <unk>\n",
                   choice_name(changed.how.change), counts.changed, counts.words, done_by(changed.how.change),
                   100 * double(counts.changed) / double(std::max<int64_t>(counts.words, 1)),
                   unknown(counts, words_));
      if (!evaluate(changed.files, &changed.how)) return false;
    }
    return true;
  }

  static const char* done_by(data::WordChange change) {
    return change == data::WordChange::swap    ? "swapped"
           : change == data::WordChange::noise ? "changed"
                                               : "deleted";
  }

  // `change` is null for the text as it is.
  bool evaluate(const std::vector<data::TextFile>& files, const data::WordChangeOptions* change) {
    data::Tokens tokens = data::encode(files, source_.split(split_), source_.layout, words_);
    // Changed words may all be unknown.
    if (!change) data::check_same_language(tokens, words_, config_.unknown_share, files[0].name);
    tokens = data::first_tokens(tokens, options_.limit);
    for (const std::string& window : windows_) {
      std::optional<data::TextBatches> rows;
      if (window != choice_name(Window::sliding)) {
        config_.rows = choice_of<Rows>("window", window);
        rows.emplace(tokens, words_.line_end(), evaluation_rows(config_));
      }
      apps::Progress bar(window + (change ? std::string(", ") + choice_name(change->change) : ""), 0,
                         rows ? rows->tokens() : int64_t(tokens.ids.size()),
                         {.quiet = options_.quiet, .unit = "tokens"});
      const apps::Tick tick = apps::ticker(bar, 0, "");
      Totals s;
      if (rows) {
        s = evaluate_blocks(*loaded_.model, *rows, tick);
      } else {
        s = evaluate_sliding(*loaded_.model, tokens.ids, words_.line_end(), config_.eval_batch_size, tick);
      }
      if (apps::stop_requested()) return false;
      Results r = measured();
      r.data = data_name(config_);
      r.fingerprint = data::fingerprint(source_.split(split_), config_.data);
      r.count = s.tokens;
      r.options = arguments(options_) + (change ? change_arguments(*change) : "");
      r.split = options_.split;
      r.window = window;
      r.objective = describe_objective(config_);
      if (change) r.attack = describe(*change);
      r.loss = s.loss();
      results_.push_back(r);
      keep(r);
    }
    return true;
  }

  void print() const override { apps::print("{}", apps::Lines{apps::to_text(to_table(results_))}); }
  nlohmann::ordered_json json() const override {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (const Results& r : results_) json.push_back(to_json(r));
    return json;
  }

  const EvalOptions& options_;
  data::TextSplit split_;
  data::Vocabulary words_;
  std::vector<std::string> windows_;
  data::TextSource source_;
  std::vector<ChangedText> changed_;
  std::vector<Results> results_;
};

}  // namespace

int eval(const EvalOptions& options) { return Evaluation(options).run(); }

}  // namespace pursuit::lm
