#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "apps/lm/commands.h"
#include "apps/lm/inspect.h"
#include "apps/lm/pipeline.h"
#include "apps/lm/results.h"
#include "apps/study/run_task.h"
#include "apps/training/step_memory.h"
#include "data/fingerprint.h"

namespace pursuit::lm {

namespace {

void check_memory(const Config& config, bool resumed, int64_t evaluated_tokens) {
  apps::require_memory(
      "train", device_from_name(config.device),
      resumed ? apps::lower_in_resumed : "--batch-size, --eval-batch-size, --context, --dim or --depth",
      [&] { train_on_shapes(config, evaluated_tokens); });
}

// Checks memory before the text is read, with the smallest vocabulary.
void check_with_few_words(Config config, bool resumed) {
  if (config.level == Level::word && config.vocabulary.empty()) config.vocabulary = "<eos>\n<unk>\n";
  check_memory(config, resumed, 1);
}

// Fills in the fields that depend on the data. Throws Error if the vocabulary of a resumed run has changed.
Config with_data(Config config, bool resumed, const data::Corpus& corpus) {
  const std::string list = corpus.vocabulary.list();
  if (config.vocabulary.empty())
    config.vocabulary = list;
  else if (config.vocabulary != list)
    fail("train", "the data has another vocabulary than the run was started with");
  config.unknown_share = corpus.unknown_share;
  check_memory(config, resumed, int64_t(data::first_tokens(corpus.valid, config.eval_tokens).ids.size()));
  return config;
}

class LanguageModelling : public apps::TaskOf<RunRecord> {
 public:
  LanguageModelling(const Config& config, const apps::RunOptions& options, distributed::Communicator& ranks)
      : ranks_(ranks),
        corpus_(open_in_turn(ranks, config, options)),
        config_(with_data(config, !options.resume.empty(), corpus_)),
        model_(model_config(config_)),
        share_(apps::share(config_, ranks.rank())),
        train_rows_(corpus_.train, corpus_.vocabulary.line_end(), train_rows(config_, share_)),
        valid_rows_(data::first_tokens(corpus_.valid, config_.eval_tokens), corpus_.vocabulary.line_end(),
                    evaluation_rows(config_, apps::share_of_evaluation(ranks))) {
    config_.data_fingerprint = apps::same_data(
        config_.data_fingerprint,
        {data::fingerprint(corpus_.source.train, config_.data), valid_fingerprint()}, config_.data);
    nn::initialise(model_, model_.config().init, config_.seed);
    const Device device = device_from_name(config_.device);
    model_.to(device);
    model_.set_dtype(config_.dtype);
    model_.keep_lookups_apart(config_.batch_size * config_.context, most_words(device), config_.accumulate,
                              config_.ranks);
    input_.emplace(config_, device);
  }

  nn::Module& model() override { return model_; }
  bool decays(const std::string& name, const Tensor& parameter) const override {
    return config_.decay == Decay::all || nn::decays_by_timm(name, parameter);
  }

  std::vector<std::string> head() const override {
    std::vector<std::string> lines = {
        fmt::format("data   {}: {} training and {} validation tokens{}, vocabulary {}{}", data_name(config_),
                    train_rows_.tokens(), valid_rows_.tokens(), config_.masked() ? " to predict" : "",
                    corpus_.vocabulary.size(), corpus_.from_cache ? ", from the cache" : ""),
        fmt::format("model  {}, width {}, {} blocks, {} heads, {} tokens: {:.2f} M parameters",
                    lm::describe_attention(config_), config_.dim, config_.depth, config_.heads,
                    config_.context, double(model_.parameter_count()) / 1e6)};
    if (const double nats = source_entropy(config_); nats > 0)
      lines.push_back(fmt::format("bound  the grammar's entropy is {:.4f} nats, perplexity {:.3f}", nats,
                                  std::exp(nats)));
    return lines;
  }

  int64_t steps_per_epoch() const override { return train_rows_.steps(); }
  void start_epoch(int64_t epoch, int64_t step) override { epoch_ = epoch, step_ = step; }

  nn::SentBatch next_batch(int64_t step, int64_t batch) override {
    train_rows_.get(epoch_, step_, batch, rows_);
    if (batch + 1 == share_.count) ++step_;
    input_->ids.send(rows_.ids.data());
    input_->labels.send(rows_.labels.data());
    model_.set_step(config_.seed, uint64_t(step), uint64_t(share_.first + batch));
    return {rows_.count, double(rows_.count) / double(rows_.labels.size())};
  }

  double waited_for_data() const override { return train_rows_.waited(); }

  nn::Loss loss() override { return lm::loss(model_, config_, *input_); }

  apps::Validation evaluate() override {
    totals_ = evaluate_blocks(model_, valid_rows_);
    std::vector<int64_t> tokens = {totals_.tokens};
    apps::add_up(ranks_, tokens);
    totals_.nats = apps::reduced(ranks_, totals_.nats, distributed::Reduction::sum);
    totals_.tokens = tokens[0];
    apps::Validation v;
    v.complete = totals_.tokens == valid_rows_.tokens();
    if (!v.complete) return v;
    inspection_ = inspect(model_, valid_rows_, inspected_rows);
    v.metrics = {{"valid_loss", "valid/loss", totals_.loss()},
                 {"valid_perplexity", "valid/perplexity", totals_.perplexity()}};
    const nlohmann::ordered_json attention = lm::summary(inspection_);
    for (const auto& [name, value] : attention.items())
      v.metrics.push_back({name, "attention/" + name, value});
    v.text = fmt::format("valid loss {:.4f}  perplexity {:.3f}  attention entropy {:.3f}", totals_.loss(),
                         totals_.perplexity(), attention["attention_entropy"].get<double>());
    v.score = -totals_.loss();
    return v;
  }

  void show(nn::AttentionInspection& inspection) override { show_rows(model_, valid_rows_, 8, inspection); }

  void finish(const std::string& folder, int64_t step) override {
    const Results found = results(folder, step);
    inspection_.conditions = found;
    inspection_.split = found.split;
    write_inspection(folder, inspection_);
    TaskOf::finish(folder, step);
  }

 private:
  const Config& settings() const override { return config_; }
  void fill(Results& results) const override {
    results.data = data_name(config_);
    results.fingerprint = valid_fingerprint();
    results.count = totals_.tokens;
    results.split = "valid";
    results.options = "--split valid";
    if (config_.eval_tokens > 0) results.options += fmt::format(" --limit {}", config_.eval_tokens);
    results.window = choice_name(config_.rows);
    results.objective = describe_objective(config_);
    results.loss = totals_.loss();
  }
  std::string summary(int64_t step) const override {
    const double nats = source_entropy(config_);
    return fmt::format(
        "validation perplexity {:.3f} by {}{} of {} tokens, loss {:.4f} nats on {} tokens after {} steps{}",
        totals_.perplexity(), config_.masked() ? "masked words in " : "", choice_name(config_.rows),
        config_.context, totals_.loss(), totals_.tokens, step,
        nats > 0 ? fmt::format("; the grammar's own perplexity is {:.3f}", std::exp(nats)) : "");
  }

  std::string valid_fingerprint() const { return data::fingerprint(corpus_.source.valid, config_.data); }

  // Upper bound of the number of different words in a batch of any rank; a GPU needs it in advance. It is
  // counted if the order of the text is the same in every epoch and no words are hidden, else it is the
  // number of tokens.
  int64_t most_words(Device device) {
    if (config_.shuffle || config_.masked() || !config_.tied || share_.of == 1 || !device.is_cuda())
      return config_.batch_size * config_.context;
    data::TextBatches all(corpus_.train, corpus_.vocabulary.line_end(),
                          train_rows(config_, {0, share_.of, share_.of}));
    std::vector<int64_t> last_batch(size_t(corpus_.vocabulary.size()),
                                    -1);  // per word: the last batch with it
    int64_t most = 0;
    for (int64_t number = 0; number < all.steps() * share_.of; ++number) {
      all.get(0, number / share_.of, number % share_.of, rows_);
      int64_t words = 0;
      for (const int64_t id : rows_.ids) words += std::exchange(last_batch[size_t(id)], number) != number;
      most = std::max(most, words);
    }
    return most;
  }

  // Rank 0 encodes a new text and writes the cache, then the other ranks read it.
  static data::Corpus open_in_turn(distributed::Communicator& ranks, const Config& config,
                                   const apps::RunOptions& options) {
    check_with_few_words(config, !options.resume.empty());
    if (ranks.rank() > 0) ranks.barrier();
    data::Corpus corpus = data::open_corpus(config.data, corpus_options(config, options.folder()));
    if (ranks.rank() == 0) ranks.barrier();
    return corpus;
  }

  distributed::Communicator& ranks_;
  data::Corpus corpus_;
  Config config_;
  nn::TransformerLm model_;
  data::Share share_;
  data::TextBatches train_rows_, valid_rows_;
  data::TextBatch rows_;
  int64_t epoch_ = 0, step_ = 0;  // step within the epoch
  std::optional<StepInput> input_;
  Totals totals_;          // of the last evaluation
  Inspection inspection_;  // of the last evaluation
};

}  // namespace

int train(const Config& config, const apps::RunOptions& options, distributed::Communicator& ranks) {
  return apps::train<LanguageModelling>(config, options, ranks);
}

}  // namespace pursuit::lm
