#pragma once
#include <string>
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
  return {{"pre", Norm::pre, "inside the branches, and one at the end"},
          {"post", Norm::post, "after every sum"}};
}

enum class Level { word, byte };
inline std::vector<Choice<Level>> choices_of(Level) { return {{"word", Level::word}, {"byte", Level::byte}}; }

enum class Decay { matrices, all };
inline std::vector<Choice<Decay>> choices_of(Decay) {
  return {{"matrices", Decay::matrices}, {"all", Decay::all, "also biases and norms"}};
}

using Rows = data::TextBatchOptions::Mode;

// Everything that makes a run what it is: the options of `lm train`, also as the files in recipes/ and as
// config.json in a run's folder. With the vocabulary in it, it is all that resume, eval and generate need.
struct Config : apps::AttentionFields, apps::TrainingFields {
  static constexpr const char *app = "lm", *unit = "tokens";
  using Model = nn::TransformerLm;

  // model
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
  int64_t eval_tokens = 0;  // of the validation split; 0: all

  // regularisation
  Decay decay = Decay::matrices;
  double locater = 0;
  nn::LocaterForm locater_form = nn::LocaterForm::anchor;
  double locater_trace = 10, locater_beta = 1;
  bool locater_unbounded = false;

  // filled in when the data is opened
  std::string vocabulary;    // one word a line; empty: bytes
  double unknown_share = 0;  // of the training text

  Config() {
    causal = true;
    kind_options["mu-scope"] = "prefix";
  }
};

template <class C, class F> void for_each_field(C& c, const F& f) {
  for_each_attention_field(c, f);
  f("dim", c.dim, "Width of the model", apps::Range{1, 65536});
  f("depth", c.depth, "Number of blocks", apps::Range{1, 1000});
  f("heads", c.heads, "Attention heads", apps::Range{1, 65536});
  f("hidden", c.hidden, "Hidden width of the MLP", apps::Range{1, 1 << 22});
  f("context", c.context, "Tokens of a window", apps::Range{1, longest_context});
  f("norm", c.norm, "Layer norms");
  f("activation", c.activation, "Of the MLP");
  f("positions", c.positions, "Position embeddings");
  f("init", c.init, "Initial weights");
  f("attention-bias", c.attention_bias, "Biases in the attention's projections");
  f("scale-embedding", c.scale_embedding, "Embeddings times the square root of the width");
  f("tied", c.tied, "The output layer shares the embedding's rows");
  f("output-bias", c.output_bias, "A bias for every word, and for every cluster of an adaptive softmax");
  f("dropout", c.dropout, "Dropout rate of the embedded tokens and of what every branch adds",
    apps::below(0, 1));
  f("activation-dropout", c.activation_dropout, "Dropout rate of the MLP's hidden units", apps::below(0, 1));
  f("output-dropout", c.output_dropout, "Dropout rate of the final features", apps::below(0, 1));
  f("cutoffs", c.cutoffs,
    "Adaptive softmax: where its clusters begin, as far as there are words (none: a softmax over all)",
    apps::Range{1, 1e9});
  f("div-value", c.div_value, "Adaptive softmax, not tied: how much narrower every next cluster is",
    apps::Range{1, 1e6});
  f("data", c.data, "Folder with the text (left out: the built-in grammar)");
  f("level", c.level, "What the text is split into");
  f("vocabulary-limit", c.vocabulary_limit, "Words of the vocabulary, the rest is <unk> (0: all)",
    apps::any_count);
  f("min-count", c.min_count, "Words that occur less often in the training text are <unk>",
    apps::Range{1, 1e9});
  f("rows", c.rows, "Rows of a batch");
  f("shuffle", c.shuffle, "A new order of the rows every epoch; false: as the text goes on");
  f("cache", c.cache, "Folder for the encoded text (left out: in the run's)");
  f("eval-tokens", c.eval_tokens, "Evaluate on this many tokens of the validation split (0: all)",
    apps::any_count);
  f("decay", c.decay, "What weight decay applies to");
  f("locater", c.locater, "Weight of the LOCATER regulariser in the loss (0: off)", apps::Range{0, 1e6});
  f("locater-form", c.locater_form, "Form of the regulariser");
  f("locater-trace", c.locater_trace, "anchor: the trace of W_QK that it holds", apps::Range{-1e9, 1e9});
  f("locater-beta", c.locater_beta, "anchor: how firmly", apps::Range{0, 1e6});
  f("locater-unbounded", c.locater_unbounded, "Allow --locater-form tr2, which has no lower bound");
  for_each_training_field(c, f);
  f("vocabulary", c.vocabulary, "");
  f("unknown-share", c.unknown_share, "", apps::Range{0, 1});
}

// Checks values that no option checks by itself; throws Error that names the option.
void validate(const Config& config);

data::Vocabulary vocabulary(const Config& config);
nn::LmConfig model_config(const Config& config);
std::vector<apps::ModelSize> model_sizes(const Config& config);
nn::LocaterOptions locater_options(const Config& config);
data::CorpusOptions corpus_options(const Config& config, const std::string& folder);
// Rows of `batch_size`, for training or, in order, for evaluation.
data::TextBatchOptions train_rows(const Config& config, const data::Share& share);
data::TextBatchOptions evaluation_rows(const Config& config, const data::Share& share = {});

// The entropy of the built-in grammar in nats a token: no model expects a smaller loss. 0 for other data.
double source_entropy(const Config& config);

// Whether every line of the text is a document and the model was trained on documents.
bool lines_stand_alone(const Config& config);

// The files of a split of a run's data. Throws Error that names the others if there is no such split.
const std::vector<data::TextFile>& files_of(const data::TextSource& source, data::TextSplit split,
                                            const Config& config);

// "WikiText", "the built-in grammar": the data's folder without its path.
std::string data_name(const Config& config);
// "RPC-Attention (4 iterations, blocks 0 to 3)"
std::string describe_attention(const Config& config);

}  // namespace pursuit::lm
