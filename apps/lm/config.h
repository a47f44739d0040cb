#pragma once
#include <string>
#include <utility>
#include <vector>

#include "apps/run/json.h"
#include "apps/training/fields.h"
#include "apps/training/model_sizes.h"
#include "data/text/batches.h"
#include "data/text/corpus.h"
#include "nn/locater.h"
#include "nn/transformer_lm.h"

namespace pursuit::lm {

inline constexpr int64_t longest_context = 1 << 20;  // tokens

enum class Norm { pre, post };
inline std::vector<Choice<Norm>> choices_of(Norm) {
  return {{"pre", Norm::pre, "before attention and MLP, and at the end"},
          {"post", Norm::post, "after every residual addition"}};
}

enum class Level { word, byte };
inline std::vector<Choice<Level>> choices_of(Level) { return {{"word", Level::word}, {"byte", Level::byte}}; }

enum class Decay { matrices, all };
inline std::vector<Choice<Decay>> choices_of(Decay) {
  return {{"matrices", Decay::matrices}, {"all", Decay::all, "also biases and norms"}};
}

enum class Objective { causal, masked };
inline std::vector<Choice<Objective>> choices_of(Objective) {
  return {{"causal", Objective::causal, "the next word"},
          {"masked", Objective::masked, "hidden words, from those on both sides"}};
}

using Rows = data::TextBatchOptions::Mode;

// The options of `lm train`. Recipes hold them too, and config.json in a run's folder, from which resume,
// eval and generate rebuild the model, the vocabulary included.
struct Config : apps::AttentionFields, apps::TrainingFields, apps::QuantizedFields {
  static constexpr const char *app = "lm", *unit = "tokens";
  using Model = nn::TransformerLm;

  // model
  Objective objective = Objective::causal;
  double mask_share = 0.15;
  int64_t dim = 64, depth = 2, heads = 4, hidden = 256, context = 64;
  Norm norm = Norm::pre;
  Activation activation = Activation::gelu;
  nn::Positions positions = nn::Positions::learned;
  nn::Init init = nn::Init::gpt2;
  bool attention_bias = true, scale_embedding = false, tied = true, output_bias = false;
  double dropout = 0, activation_dropout = 0, output_dropout = 0, div_value = 4;
  std::vector<int64_t> cutoffs;

  // data
  std::string data;  // empty: the built-in grammar
  Level level = Level::word;
  Rows rows = Rows::blocks;
  std::string cache;
  bool shuffle = true;
  int64_t vocabulary_limit = 0, min_count = 1;
  int64_t eval_tokens = 0;  // evaluated tokens of the validation split; 0: all

  // regularisation
  Decay decay = Decay::matrices;
  double locater = 0;
  nn::LocaterForm locater_form = nn::LocaterForm::anchor;
  double locater_trace = 10, locater_beta = 1;
  bool locater_unbounded = false;

  // filled in when the data is opened
  std::string vocabulary;    // one word per line; empty: bytes
  double unknown_share = 0;  // fraction of <unk> in the training text

  bool masked() const { return objective == Objective::masked; }

  Config() {
    causal = true;
    kind_options["mu-scope"] = "prefix";
  }
};

template <class C, class F> void for_each_field(C& c, const F& f) {
  for_each_attention_field(c, f);
  f("objective", c.objective, "What the model predicts");
  f("mask-share", c.mask_share,
    "masked: share of the words that are predicted; of these 80 % are hidden, 10 % replaced, 10 % shown",
    apps::above(0, 1));
  f("dim", c.dim, "Width of the model", apps::Range{1, 65536});
  f("depth", c.depth, "Number of blocks", apps::Range{1, 1000});
  f("heads", c.heads, "Attention heads", apps::Range{1, 65536});
  f("hidden", c.hidden, "Hidden width of the MLP", apps::Range{1, 1 << 22});
  f("context", c.context, "Tokens in a window", apps::Range{1, longest_context});
  f("norm", c.norm, "Place of the layer norms");
  f("activation", c.activation, "Activation of the MLP");
  f("positions", c.positions, "Position embeddings");
  f("init", c.init, "Initial weights");
  f("attention-bias", c.attention_bias, "Biases in the attention's projections");
  f("scale-embedding", c.scale_embedding, "Multiply the embeddings by the square root of the width");
  f("tied", c.tied, "The output layer shares the embedding's weights");
  f("output-bias", c.output_bias, "Biases in the output layer: one per word and per cluster");
  f("dropout", c.dropout, "Dropout rate of the embeddings and of the residual branches", apps::below(0, 1));
  f("activation-dropout", c.activation_dropout, "Dropout rate of the MLP's hidden units", apps::below(0, 1));
  f("output-dropout", c.output_dropout, "Dropout rate of the final features", apps::below(0, 1));
  f("cutoffs", c.cutoffs,
    "Adaptive softmax: first word of each cluster; those past the vocabulary are ignored (none: full "
    "softmax)",
    apps::Range{1, 1e9});
  f("div-value", c.div_value,
    "Adaptive softmax, not tied: factor by which every cluster is narrower than the one before",
    apps::Range{1, 1e6});
  f("data", c.data, "Folder with the text (left out: the built-in grammar)");
  f("level", c.level, "What the text is split into");
  f("vocabulary-limit", c.vocabulary_limit,
    "Largest number of words in the vocabulary; the others are <unk> (0: no limit)", apps::any_count);
  f("min-count", c.min_count, "Words that occur less often in the training text are <unk>",
    apps::Range{1, 1e9});
  f("rows", c.rows, "Rows of a batch");
  f("shuffle", c.shuffle, "Shuffle the rows every epoch; false: keep the order of the text");
  f("cache", c.cache, "Folder for the encoded text (left out: in the run's folder)");
  f("eval-tokens", c.eval_tokens, "Evaluate on this many tokens of the validation split (0: all)",
    apps::any_count);
  f("decay", c.decay, "What weight decay applies to");
  f("locater", c.locater, "Weight of the LOCATER regulariser in the loss (0: off)", apps::Range{0, 1e6});
  f("locater-form", c.locater_form, "Form of the regulariser");
  f("locater-trace", c.locater_trace, "anchor: target c of the trace of W_QK", apps::Range{-1e9, 1e9});
  f("locater-beta", c.locater_beta, "anchor: weight beta of the trace term", apps::Range{0, 1e6});
  f("locater-unbounded", c.locater_unbounded, "Allow --locater-form tr2, which has no lower bound");
  for_each_training_field(c, f);
  f("vocabulary", c.vocabulary, "");
  f("unknown-share", c.unknown_share, "", apps::Range{0, 1});
  for_each_quantized_field(c, f);
}

// Checks options against each other. Throws Error that names the option.
void validate(const Config& config);
// The options that change nothing beside these, and why; see note_options.
std::vector<std::pair<std::string, std::string>> without_effect(const Config& config);
inline apps::ValidationScore validation_score(const Config&) { return {"valid_perplexity", true}; }

data::Vocabulary vocabulary(const Config& config);
nn::LmConfig model_config(const Config& config);
std::vector<apps::ModelSize> model_sizes(const Config& config);
nn::LocaterOptions locater_options(const Config& config);
data::CorpusOptions corpus_options(const Config& config, const std::string& folder);
// Options of the batches for training, and for evaluation (not shuffled, the same words hidden).
data::TextBatchOptions train_rows(const Config& config, const data::Share& share);
data::TextBatchOptions evaluation_rows(const Config& config, const data::Share& share = {});

// The entropy of the built-in grammar in nats per token, a lower bound of the expected loss. 0, which is none, for
// other data, masked words, and if the vocabulary lacks words of the grammar.
double source_entropy(const Config& config);

// True if every line of the text is a document and the model was trained on documents.
bool lines_stand_alone(const Config& config);

// The files of a split. Throws Error that names the existing splits if there is no such split.
const std::vector<data::TextFile>& files_of(const data::TextSource& source, data::TextSplit split,
                                            const Config& config);

// The name of the data's folder without its path, or "the built-in grammar".
std::string data_name(const Config& config);
// "masked words" if the model predicts these, else empty.
std::string describe_objective(const Config& config);
// For example "RPC-Attention (4 iterations, blocks 0 to 3)".
std::string describe_attention(const Config& config);

}  // namespace pursuit::lm
