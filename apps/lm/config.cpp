#include "apps/lm/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "apps/command/apply.h"
#include "apps/command/checks.h"
#include "apps/command/unused_options.h"
#include "apps/run/fields.h"
#include "apps/run/run_folder.h"
#include "data/text/grammar.h"

namespace pursuit::lm {

using apps::check_range;

void validate(const Config& c) {
  apps::check_fields(Config::app, c);
  apps::validate(Config::app, static_cast<const apps::TrainingFields&>(c));
  apps::validate(Config::app, static_cast<const apps::QuantizedFields&>(c), c.dtype);
  if (c.masked() && c.eval_tokens > 0)
    check_range(Config::app, "eval-tokens", c.eval_tokens, c.eval_tokens >= c.context,
                "0 or at least --context with --objective masked");
  if (std::adjacent_find(c.cutoffs.begin(), c.cutoffs.end(), std::greater_equal<>()) != c.cutoffs.end())
    fail(Config::app, fmt::format("--cutoffs is {}, need ascending numbers", fmt::join(c.cutoffs, ",")));
  const std::vector<std::string> kinds = nn::attention_kinds();
  if (c.masked() && c.rows != Rows::blocks)
    fail(Config::app, "--objective masked needs --rows blocks: no word may see the padding after a document");
  for (const auto& [option, kind] :
       {std::pair{"--attention ", c.attention}, {"--other-attention ", c.other_attention}})
    if (!c.masked() && std::find(kinds.begin(), kinds.end(), kind) != kinds.end() &&
        !nn::attention_kind(kind).traits.may_be_causal)
      fail(Config::app, option + kind + " mixes all tokens of a window and cannot be causal; choose another");
  apps::validate(Config::app, static_cast<const apps::AttentionFields&>(c), c.depth);
  check_range(Config::app, "dim", c.dim, c.dim % c.heads == 0, "a multiple of --heads");
  if (c.locater_form == nn::LocaterForm::tr2 && c.locater > 0 && !c.locater_unbounded)
    fail(
        Config::app,
        "--locater-form tr2 has no lower bound, and training can diverge; allow it with --locater-unbounded, "
        "or choose anchor, var or fro");
}

std::vector<std::pair<std::string, std::string>> without_effect(const Config& c) {
  apps::UnusedOptions unused;
  unused.add_if(c.level == Level::byte, "--level byte has no list of words",
                {"vocabulary-limit", "min-count"});
  unused.add_if(!c.masked(), "only --objective masked hides words", {"mask-share"});
  unused.add_if(c.cutoffs.empty() || c.tied, "it is of an adaptive softmax, with --cutoffs and --tied false",
                {"div-value"});
  unused.add_if(c.locater == 0, "--locater is 0",
                {"locater-form", "locater-trace", "locater-beta", "locater-unbounded"});
  unused.add_if(c.locater > 0 && c.locater_form != nn::LocaterForm::anchor,
                "only --locater-form anchor has it", {"locater-trace", "locater-beta"});
  unused.add_if(c.locater > 0 && c.locater_form != nn::LocaterForm::tr2,
                "only --locater-form tr2 is unbounded", {"locater-unbounded"});
  unused.add_if(c.data.empty(), "the built-in grammar has no cache", {"cache"});
  return unused.list;
}

data::Vocabulary vocabulary(const Config& c) {
  return c.level == Level::byte ? data::Vocabulary::of_bytes()
                                : data::Vocabulary::of_list(c.vocabulary, "the run's vocabulary");
}

nn::LmConfig model_config(const Config& c) {
  nn::LmConfig m;
  m.causal = !c.masked();
  m.vocab = vocabulary(c).size() + (m.causal ? 0 : 1);  // the mask is the last word
  m.context = c.context;
  m.dim = c.dim;
  m.depth = c.depth;
  m.heads = c.heads;
  m.hidden = c.hidden;
  m.activation = c.activation;
  m.pre_norm = c.norm == Norm::pre;
  m.attention = apps::attention_config(c);
  m.attention.bias = c.attention_bias;
  m.positions = c.positions;
  m.scale_embedding = c.scale_embedding;
  m.dropout = c.dropout;
  m.activation_dropout = c.activation_dropout;
  m.output_dropout = c.output_dropout;
  m.tied = c.tied;
  m.output_bias = c.output_bias;
  for (const int64_t cutoff : c.cutoffs)
    if (cutoff < m.vocab) m.cutoffs.push_back(cutoff);
  m.div_value = c.div_value;
  m.init = c.init;
  m.quantization = apps::quantization_config(c);
  return m;
}

std::vector<apps::ModelSize> model_sizes(const Config& c) {
  std::vector<apps::ModelSize> sizes = {{"vocabulary", model_config(c).vocab, "embed.weight", 0},
                                        {"dim", c.dim, "embed.weight", 1},
                                        {"depth", c.depth, "blocks.", apps::ModelSize::blocks},
                                        {"hidden", c.hidden, "blocks.0.mlp.fc1.weight", 0}};
  if (c.positions == nn::Positions::learned) sizes.push_back({"context", c.context, "pos_embed", 0});
  return sizes;
}

nn::LocaterOptions locater_options(const Config& c) {
  return {c.locater_form, c.locater_beta, c.locater_trace, c.locater_unbounded};
}

data::CorpusOptions corpus_options(const Config& c, const std::string& folder) {
  return {.bytes = c.level == Level::byte,
          .min_count = c.min_count,
          .vocabulary_limit = c.vocabulary_limit,
          .cache = c.cache.empty() ? (std::filesystem::path(folder) / "cache").string() : c.cache};
}

data::TextBatchOptions evaluation_rows(const Config& c, const data::Share& share) {
  data::TextBatchOptions rows{
      .batch_size = c.eval_batch_size, .length = c.context, .mode = c.rows, .share = share};
  if (c.masked()) rows.masking = {c.mask_share, vocabulary(c).size()};
  return rows;
}

data::TextBatchOptions train_rows(const Config& c, const data::Share& share) {
  data::TextBatchOptions rows = evaluation_rows(c, share);
  rows.batch_size = c.batch_size;
  rows.shuffle = c.shuffle;
  rows.seed = c.seed;
  return rows;
}

double source_entropy(const Config& c) {
  if (!c.data.empty() || c.masked()) return 0;
  const data::GrammarFacts facts = data::grammar_facts();
  const int64_t words = std::count(c.vocabulary.begin(), c.vocabulary.end(), '\n');
  if (c.level == Level::word && words < facts.vocabulary) return 0;
  return facts.nats / (c.level == Level::byte ? facts.bytes : facts.words);
}

bool lines_stand_alone(const Config& c) { return c.data.empty() && c.rows == Rows::documents; }

const std::vector<data::TextFile>& files_of(const data::TextSource& source, data::TextSplit split,
                                            const Config& config) {
  // Only test can be missing: every text has a train and a valid split.
  if (source.split(split).empty())
    fail("lm",
         data_name(config) + " has no split " + data::name_of(split) + ": give --split valid, or train");
  return source.split(split);
}

std::string data_name(const Config& c) {
  return c.data.empty() ? "the built-in grammar" : apps::last_name(c.data);
}

std::string describe_objective(const Config& c) { return c.masked() ? "masked words" : ""; }

std::string describe_attention(const Config& c) { return apps::describe_attention(c, c.depth); }

}  // namespace pursuit::lm

template void pursuit::apps::apply(const Recipe&, pursuit::lm::Config&);
