#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>

#include "apps/lm/commands.h"
#include "apps/lm/inspect.h"
#include "apps/lm/pipeline.h"
#include "apps/lm/results.h"
#include "apps/run/files.h"
#include "apps/study/run_record.h"
#include "data/text/prompt.h"
#include "engine/base/error.h"
#include "engine/ops.h"
#include "tests/apps/config_of_recipe.h"
#include "tests/message_of.h"
#include "tests/temporary_folder.h"

using namespace pursuit;
using namespace pursuit::lm;
namespace fs = std::filesystem;

namespace {

constexpr int64_t vocab = 11, context = 5;

nn::LmConfig tiny_model(const std::string& attention = "softmax") {
  nn::LmConfig c;
  c.vocab = vocab;
  c.context = context;
  c.dim = 8;
  c.depth = 2;
  c.heads = 2;
  c.hidden = 16;
  c.attention.kind = attention;
  c.positions = nn::Positions::learned;
  c.dropout = 0;
  c.pre_norm = true;
  c.init = nn::Init::gpt2;
  return c;
}

// Weights far from those of the start, so that every word has a probability of its own.
void randomise(nn::TransformerLm& model) {
  uint64_t stream = 0;
  for (const nn::NamedTensor& p : model.parameters()) {
    copy_values(*p.tensor, normal(p.tensor->shape(), p.name.find("norm") != std::string::npos ? 1 : 0, 0.5, 7,
                                  ++stream));
    *p.tensor = p.tensor->detach();
  }
}

data::Tokens tokens_of(std::vector<int32_t> ids) {
  const auto owner = std::make_shared<std::pair<std::vector<int32_t>, std::vector<int64_t>>>(
      std::move(ids), std::vector<int64_t>{0});
  return {owner->first, owner->second, owner};
}

// -log p(word) after these words, by the whole distribution.
double nats_after(const nn::TransformerLm& model, const std::vector<int32_t>& before, int32_t word) {
  const std::vector<double> logits =
      model.next_logits(from_vector(before, {1, int64_t(before.size())})).to_vector();
  double total = 0;
  for (const double l : logits) total += std::exp(l);
  return std::log(total) - logits[size_t(word)];
}

Config tiny_config() {
  Config c;
  c.dim = 16;
  c.depth = 1;
  c.heads = 2;
  c.hidden = 16;
  c.context = 16;
  c.batch_size = 8;
  c.steps = 4;
  c.eval_tokens = 200;
  c.eval_every = 0;
  c.warmup_epochs = 0;
  c.threads = 2;
  return c;
}

apps::RunOptions quiet(const std::string& out) {
  apps::RunOptions o;
  o.out = out;
  o.quiet = o.overwrite = true;
  return o;
}

}  // namespace

TEST_CASE("lm perplexity: blocks and sliding windows against sums word by word") {
  nn::TransformerLm model(tiny_model());
  randomise(model);
  const std::vector<int32_t> text = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};
  const int32_t line_end = 0;
  const int64_t n = int64_t(text.size());
  const auto word = [&](int64_t i) { return i < 0 ? line_end : text[size_t(i)]; };
  double blocks = 0, sliding = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t block = i / context * context, window = std::max(i - context + 1, int64_t(0));
    for (const auto& [begin, sum] : {std::pair{block, &blocks}, {window, &sliding}}) {
      std::vector<int32_t> before;
      for (int64_t j = begin; j <= i; ++j) before.push_back(word(j - 1));
      *sum += nats_after(model, before, text[size_t(i)]);
    }
  }
  data::TextBatches rows(tokens_of(text), line_end, {.batch_size = 2, .length = context});
  const Totals by_blocks = evaluate_blocks(model, rows);
  CHECK(by_blocks.tokens == n);
  CHECK(by_blocks.nats == doctest::Approx(blocks).epsilon(1e-5));
  for (const int64_t batch : {1, 3, 100}) {
    const Totals totals = evaluate_sliding(model, text, line_end, batch);
    CHECK(totals.tokens == n);
    CHECK(totals.nats == doctest::Approx(sliding).epsilon(1e-5));
  }
  CHECK(std::abs(blocks - sliding) > 0.1);  // or the two are not told apart
  // A text shorter than a window.
  CHECK(evaluate_sliding(model, std::span(text).first(3), line_end, 2).tokens == 3);
  CHECK_THROWS_AS(evaluate_sliding(model, {}, line_end, 2), Error);
}

TEST_CASE("lm perplexity: no word is predicted from what follows it, padding included") {
  for (const std::string kind :
       {"softmax", "symmetric", "rpc", "clipped", "gated", "linear", "scaled-alpha"}) {
    nn::LmConfig c = tiny_model(kind);
    c.attention.options["mu-scope"] = "prefix";
    nn::TransformerLm model(c);
    randomise(model);
    std::vector<int32_t> text = {3, 1, 4, 1, 5};
    const auto log_probs = [&] {
      const Tensor ids = from_vector(text, {1, context});
      return model.log_prob_of(ids, from_vector(std::vector<int32_t>(size_t(context), 2), {1, context}))
          .to_vector();
    };
    const std::vector<double> before = log_probs();
    for (size_t changed = 0; changed < text.size(); ++changed) {
      const int32_t old = text[changed];
      text[changed] = (old + 3) % vocab;
      const std::vector<double> after = log_probs();
      INFO(kind, ", token ", changed);
      for (size_t t = 0; t < changed; ++t) CHECK(after[t] == before[t]);
      CHECK(after[changed] != before[changed]);
      text[changed] = old;
    }
  }
}

TEST_CASE("lm sampling: temperature, top-k and top-p") {
  const std::vector<double> logits = {std::log(0.1), std::log(0.4), std::log(0.2), std::log(0.3)};
  const auto shares = [&](const nn::SamplingOptions& options) {
    std::map<int32_t, double> counts;
    Random random(3);
    for (int i = 0; i < 20000; ++i) counts[nn::sample(logits, options, random)] += 1.0 / 20000;
    return counts;
  };
  const auto all = shares({});
  for (const auto& [word, p] : std::map<int32_t, double>{{0, 0.1}, {1, 0.4}, {2, 0.2}, {3, 0.3}})
    CHECK(all.at(word) == doctest::Approx(p).epsilon(0.06));
  CHECK(shares({.temperature = 0}).size() == 1);
  CHECK(shares({.temperature = 0}).count(1) == 1);
  const auto two = shares({.top_k = 2});
  CHECK(two.size() == 2);
  CHECK(two.at(1) == doctest::Approx(4 / 7.0).epsilon(0.05));
  CHECK(shares({.top_p = 0.5}).size() == 2);  // 0.4 is not enough, 0.7 is
  CHECK(shares({.top_p = 0.39}).size() == 1);
  CHECK(shares({.forbidden = {1, 3}}).size() == 2);
  const auto flat = shares({.temperature = 2});
  CHECK(flat.at(1) / flat.at(0) == doctest::Approx(2).epsilon(0.1));  // the square root of 4
  Random random(0);
  CHECK_THROWS_AS(nn::sample(logits, {.temperature = -1}, random), Error);
  CHECK_THROWS_AS(nn::sample(logits, {.top_p = 0}, random), Error);
  CHECK_THROWS_AS(nn::sample(logits, {.forbidden = {0, 1, 2, 3}}, random), Error);
  const double inf = std::numeric_limits<double>::infinity();
  for (const std::vector<double>& bad : {std::vector<double>{NAN, NAN}, {0, NAN}, {0, inf}, {-inf, -inf}})
    CHECK_THROWS_AS(nn::sample(bad, {}, random), Error);
}

TEST_CASE("lm generate: with and without a cache the same, and greedily what is most probable") {
  nn::TransformerLm model(tiny_model());
  randomise(model);
  REQUIRE(model.has_cache());
  const std::vector<int64_t> prompt = {3, 1};
  const auto write = [&](int64_t count, const nn::SamplingOptions& options, bool cache) {
    Random random(5);
    return nn::generate(model, 0, prompt, {.count = count, .sampling = options, .use_cache = cache}, random);
  };
  // Up to a full window they read the same words: an end of line, the prompt and two more.
  CHECK(write(3, {}, true) == write(3, {}, false));
  const std::vector<int64_t> greedy = write(12, {.temperature = 0}, false);
  REQUIRE(greedy.size() == 12);
  std::vector<int64_t> text = {0, 3, 1};
  for (const int64_t drawn : greedy) {
    const int64_t size = int64_t(text.size()), begin = std::max(size - context, int64_t(0));
    const Tensor ids = from_vector(std::vector<int64_t>(text.begin() + begin, text.end()), {1, size - begin});
    CHECK(argmax(model.next_logits(ids)).item() == drawn);
    text.push_back(drawn);
  }
  CHECK(write(40, {}, true).size() == 40);  // far beyond a window

  // After an end of line as if nothing stood before it: greedily, every line is the first one without a
  // prompt.
  Random random(0);
  const auto alone = [&](const std::vector<int64_t>& before, int64_t count) {
    return nn::generate(model, 0, before,
                        {.count = count, .sampling = {.temperature = 0}, .lines_stand_alone = true}, random);
  };
  CHECK(alone({3, 1, 0}, 4) == alone({}, 4));
  CHECK(alone({3, 0, 1}, 4) == alone({1}, 4));
}

TEST_CASE("lm generate: words of a prompt that the vocabulary lacks") {
  const auto words = data::Vocabulary::of_list("<eos>\nthe\nwar\n<unk>\n", "v");
  CHECK(data::unknown_words("the war\n<unk> the", words).empty());
  CHECK(data::unknown_words("zzz the\n yyy", words) == std::vector<std::string>{"zzz", "yyy"});
  CHECK(data::unknown_words("", words).empty());
  CHECK(data::unknown_words("zzz", data::Vocabulary::of_bytes()).empty());
}

TEST_CASE("lm inspect: facts of the heads") {
  nn::TransformerLm model(tiny_model("symmetric"));
  randomise(model);
  data::TextBatches rows(tokens_of({3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8}), 0,
                         {.batch_size = 2, .length = context});
  const Inspection i = inspect(model, rows, 10);
  CHECK(i.sequences == 3);
  REQUIRE(i.heads.size() == 4);
  for (const HeadFacts& h : i.heads) {
    CHECK(h.entropy > 0);
    CHECK(h.entropy < i.even_entropy);
    // Keys serve as queries: W is symmetric and its eigenvalues are real and not negative.
    CHECK(h.w.trace_of_square == doctest::Approx(h.w.frobenius2));
    for (const auto& value : h.eigenvalues) CHECK(value.real() >= -1e-9);
    CHECK(i.propagation(h).size() == context);
    // Other walks, of this head's matrices: both shares have a standard error of at most 0.008.
    const nn::Attention& attention = model.attention(int(h.layer));
    const std::vector<double> walks =
        nn::simulated_propagation(attention.query_weights(), attention.key_weights(), i.temperature, context,
                                  4000, /*seed=*/1)
            .select(0, h.head)
            .to_vector();
    REQUIRE(h.simulated_propagation.size() == walks.size());
    for (size_t t = 0; t < walks.size(); ++t)
      CHECK(std::abs(h.simulated_propagation[t] - walks[t]) < 5 * 0.008 * std::sqrt(2.0));
  }
  // Two rows of five tokens and one of two, whose filling does not count.
  CHECK(i.even_entropy == doctest::Approx((2 * std::log(120.0) + std::log(2.0)) / 12));
  const Inspection again = inspection_from_json(to_json(i));
  CHECK(to_json(again) == to_json(i));
  // A damaged file's number of tokens is no number of points to compute.
  for (const int64_t tokens : {int64_t(0), int64_t(1) << 40}) {
    nlohmann::ordered_json damaged = to_json(i);
    damaged["tokens"] = tokens;
    CHECK_THROWS_WITH_AS(inspection_from_json(damaged), doctest::Contains("'tokens'"), Error);
  }
  nlohmann::ordered_json damaged = to_json(i);
  damaged["heads"][0]["simulated_propagation"] = {0.5};
  CHECK_THROWS_WITH_AS(inspection_from_json(damaged), doctest::Contains("simulated_propagation"), Error);
  Inspection unknown = i;
  unknown.heads[0].simulated_propagation[1] = std::nan("");
  CHECK(std::isnan(unknown.propagation_error(unknown.heads[0])));
  CHECK(std::isnan(summary(unknown)["propagation_error"].get<double>()));
  damaged["heads"][0].erase("simulated_propagation");  // as older files
  const Inspection older = inspection_from_json(damaged);
  CHECK(std::isnan(older.propagation_error(older.heads[0])));
}

TEST_CASE("lm inspect: rows spread over the text, whatever the evaluation's batches") {
  nn::TransformerLm model(tiny_model());
  randomise(model);
  const std::vector<int32_t> text = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4};
  const auto inspected = [&](const std::vector<int32_t>& words, int64_t batch_size, int64_t sequences) {
    const data::TextBatches rows(tokens_of(words), 0, {.batch_size = batch_size, .length = context});
    return to_json(inspect(model, rows, sequences));
  };
  const nlohmann::ordered_json two = inspected(text, 1, 2);
  for (const int64_t batch_size : {2, 3, 4}) CHECK(inspected(text, batch_size, 2) == two);
  // Rows 0 and 2 of four: the third row is of what stands there.
  std::vector<int32_t> other = text;
  other[12] = 1;
  CHECK(inspected(other, 1, 2) != two);
  other = text;
  other[7] = other[17] = 1;
  CHECK(inspected(other, 1, 2) == two);
}

TEST_CASE("lm compare: the parameters of a model are counted without its memory") {
  Config config;
  config.vocabulary = "<eos>\n<unk>\n";
  config.dim = 65536;
  config.hidden = 1 << 22;
  const std::optional<int64_t> count = apps::parameter_count(config);
  REQUIRE(count);
  CHECK(*count > config.depth * 2 * config.dim * config.hidden);  // terabytes
}

TEST_CASE("lm inspect: attention of the LOCATER setting is nearly even before training") {
  Config config = config_of_recipe<Config>("lm", "locater");
  config.vocabulary = "<eos>\n";
  for (int i = 1; i < 2000; ++i) config.vocabulary += std::to_string(i) + "\n";
  nn::TransformerLm model(model_config(config));
  nn::initialise(model, model.config().init, 0);
  std::vector<int32_t> ids;
  Random random(1);
  for (int64_t t = 0; t < 64 * 64; ++t) ids.push_back(int32_t(random.below(2000)));
  data::TextBatches rows(tokens_of(ids), 0, {.batch_size = 16, .length = 64});
  CHECK(inspect(model, rows, 64).heads.at(0).entropy == doctest::Approx(3.0).epsilon(0.05 / 3));
}

TEST_CASE("lm train, eval: a run's folder, its results, and what does not fit it") {
  TemporaryFolder folder;
  Config config = tiny_config();
  const std::string out = folder.file("run");
  REQUIRE(train(config, quiet(out)) == 0);
  for (const char* file :
       {"config.json", "checkpoint.safetensors", "metrics.jsonl", "eval.json", "inspect.json", "report.html"})
    CHECK(fs::exists(fs::path(out) / file));
  const std::string page = apps::read_file(out + "/report.html");
  for (const char* part : {"Validation perplexity", "Signal propagation", "A sample", "lm train --"})
    CHECK(page.find(part) != std::string::npos);

  EvalOptions e;
  e.checkpoint = out;
  e.windows = {"all"};
  e.changes = {data::WordChange::swap};
  e.quiet = e.json = true;
  CHECK(message_of([&] { eval(e); }).find("--swap-word AAA is none of the") != std::string::npos);
  CHECK(apps::read_evaluations<Results>(out).size() == 1);  // that of training
  e.swap.replacement = "box";
  e.limit = 100;
  e.load.threads = 2;
  REQUIRE(eval(e) == 0);
  const std::vector<Results> results = apps::read_evaluations<Results>(out);
  REQUIRE(results.size() == 7);  // of training, and three windows with and without the attack
  for (const Results& r : results) {
    CHECK(r.count > 0);
    CHECK(std::isfinite(r.perplexity()));
    CHECK(r.perplexity() > 1);
  }
  REQUIRE(eval(e) == 0);
  CHECK(apps::read_evaluations<Results>(out).size() == 7);
  e.windows = {"blocks"};
  e.changes = {};
  e.limit = 50;
  e.split = "valid";
  REQUIRE(eval(e) == 0);

  // Evaluations that are not alike have columns of their own.
  const apps::Comparison comparison = apps::compare_runs<RunRecord>({out, out});
  REQUIRE(comparison.groups.size() == 1);
  const auto& measures = comparison.groups[0].measures;
  for (const auto& [key, measure] : measures) {
    const std::string& name = key;
    CAPTURE(name);
    CHECK(measure.values.size() == 2);
    CHECK(measure.spread() == 0);
  }
  for (const Results& r : apps::read_evaluations<Results>(out)) {
    const bool found =
        std::any_of(comparison.columns.begin(), comparison.columns.end(), [&](const apps::Column& c) {
          const auto with = [&](const char* key, const std::string& value) {
            return std::count(c.with.begin(), c.with.end(), std::pair<std::string, std::string>(key, value)) >
                   0;
          };
          return with("tokens", std::to_string(r.count)) && with("split", r.split) &&
                 with("window", r.window) && (r.attack.empty() || with("contamination", r.attack)) &&
                 measures.at(c.heading).values[0] == doctest::Approx(r.perplexity());
        });
    CHECK(found);
  }
  CHECK(message_of([&] { apps::compare_runs<RunRecord>({folder.file("none")}); }).find("none") !=
        std::string::npos);

  SUBCASE("text of another vocabulary") {
    fs::create_directories(folder.path / "other");
    std::ofstream(folder.path / "other/train.txt") << "anna gave quuux xyzzy\n";
    std::ofstream(folder.path / "other/valid.txt") << "foo bar baz\n";
    e.data = folder.file("other");
    e.split = "valid";
    const std::string error = message_of([&] { eval(e); });
    CHECK(error.find("valid.txt") != std::string::npos);
    CHECK(error.find("not in the vocabulary") != std::string::npos);
    InspectOptions i;
    i.checkpoint = out;
    i.data = e.data;
    CHECK(message_of([&] { inspect_run(i); }) == error);
    e.split = "test";
    CHECK(message_of([&] { eval(e); }).find("has no split test") != std::string::npos);
    e.split = "nonsense";
    CHECK(message_of([&] { eval(e); }).find("train, valid or test") != std::string::npos);
  }
  SUBCASE("noise in every word makes no other data set of it") {
    e.changes = {data::WordChange::noise};
    e.swap.rate = 1;
    REQUIRE(eval(e) == 0);
    CHECK(apps::read_evaluations<Results>(out).back().attack.find("character-noise") == 0);
  }
  SUBCASE("an inspection of weights that were replaced") {
    const std::string before = apps::read_file(out + "/inspect.json");
    Inspection inspection = inspection_from_json(nlohmann::ordered_json::parse(before));
    inspection.conditions.run = "another";
    CHECK(message_of([&] { write_inspection(out, inspection); }).find("another training has begun there") !=
          std::string::npos);
    CHECK(apps::read_file(out + "/inspect.json") == before);
  }
  SUBCASE("a run of other data") {
    fs::create_directories(folder.path / "other");
    std::ofstream(folder.path / "other/train.txt") << "other words\n";
    std::ofstream(folder.path / "other/valid.txt") << "other words\n";
    Config other = apps::load_model<Config>(out).config;
    other.data = folder.file("other");
    apps::RunOptions resume = quiet(out);
    resume.resume = out;
    CHECK(message_of([&] { train(other, resume); }).find("another vocabulary") != std::string::npos);
    // The same words in files of other sizes.
    const auto save = [&](const std::string& name, const std::string& text) {
      fs::create_directories(folder.path / name);
      std::ofstream(folder.path / name / "train.txt") << text;
      std::ofstream(folder.path / name / "valid.txt") << "one two\n";
      return folder.file(name);
    };
    std::string text;
    for (int i = 0; i < 300; ++i) text += "one two three\n";
    Config first = tiny_config();
    first.data = save("first", text);
    REQUIRE(train(first, quiet(folder.file("words"))) == 0);
    resume.resume = folder.file("words");
    Config more = apps::load_model<Config>(resume.resume).config;
    more.data = save("longer", text + "three one two\n");
    CHECK(message_of([&] {
            train(more, resume);
          }).find("not the training data that the run was started with") != std::string::npos);
    more.data = save("moved", text);
    CHECK(train(more, resume) == 0);
  }
}

TEST_CASE("lm train: the regulariser moves the traces, the loss shown stays the cross-entropy") {
  TemporaryFolder folder;
  Config config = tiny_config();
  config.steps = 60;
  config.heads = 1;
  config.lr = 1e-2;
  config.schedule = nn::Schedule::Kind::constant;
  config.weight_decay = 0;
  REQUIRE(train(config, quiet(folder.file("none"))) == 0);
  config.locater = 0.1;
  config.locater_trace = 3;
  REQUIRE(train(config, quiet(folder.file("anchor"))) == 0);
  const auto inspected = [&](const std::string& run) {
    return inspection_from_json(
        nlohmann::ordered_json::parse(apps::read_file(folder.file(run) + "/inspect.json")));
  };
  CHECK(inspected("anchor").heads[0].w.trace == doctest::Approx(3 / (1 + 1.0 / 16)).epsilon(0.1));
  CHECK(inspected("none").heads[0].w.trace < 2);
  const auto loss = [&](const std::string& run) {
    return apps::read_evaluations<Results>(folder.file(run)).at(0).loss;
  };
  CHECK(std::abs(loss("anchor") - loss("none")) < 0.3);
  config.locater_form = nn::LocaterForm::tr2;
  CHECK(message_of([&] { train(config, quiet(folder.file("tr2"))); }).find("no lower bound") !=
        std::string::npos);
}

TEST_CASE("lm perplexity: of masked words, against the whole distribution at every one") {
  nn::LmConfig c = tiny_model();
  c.causal = false;
  nn::TransformerLm model(c);
  randomise(model);
  const data::TextBatchOptions options{
      .batch_size = 2, .length = context, .masking = data::Masking{0.4, vocab - 1}};
  const data::Tokens text = tokens_of({3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3});
  data::TextBatches rows(text, 0, options);
  const Totals totals = evaluate_blocks(model, rows);
  double nats = 0;
  int64_t words = 0;
  data::TextBatch b;
  for (int64_t step = 0; step < rows.steps(); ++step) {
    rows.get(0, step, b);
    const Tensor ids = from_vector(b.ids, {2, context});
    std::vector<std::vector<double>> log_p;  // of every word at every place
    for (int64_t word = 0; word < vocab; ++word)
      log_p.push_back(
          model.log_prob_of(ids, from_vector(std::vector<int64_t>(b.ids.size(), word), {2, context}))
              .to_vector());
    for (size_t i = 0; i < b.labels.size(); ++i) {
      if (b.labels[i] < 0) continue;
      double all = 0;
      for (const auto& of_word : log_p) all += std::exp(of_word[i]);
      CHECK(all == doctest::Approx(1).epsilon(1e-5));
      nats -= log_p[size_t(b.labels[i])][i];
      ++words;
    }
  }
  CHECK(words == 6);  // two of five, three rows
  CHECK(totals.tokens == words);
  CHECK(totals.nats == doctest::Approx(nats).epsilon(1e-5));
}

TEST_CASE("lm train, eval: masked words") {
  TemporaryFolder folder;
  Config config = tiny_config();
  config.objective = Objective::masked;
  config.steps = 6;
  const std::string out = folder.file("run");
  REQUIRE(train(config, quiet(out)) == 0);
  const std::string page = apps::read_file(out + "/report.html");
  CHECK(page.find("masked words") != std::string::npos);
  CHECK(page.find("A sample") == std::string::npos);
  EvalOptions e;
  e.checkpoint = out;
  e.quiet = e.json = true;
  e.limit = 300;
  e.split = "valid";
  REQUIRE(eval(e) == 0);
  const double loss = apps::read_evaluations<Results>(out).back().loss;
  REQUIRE(eval(e) == 0);
  const std::vector<Results> results = apps::read_evaluations<Results>(out);
  REQUIRE(results.size() == 2);
  CHECK(results[1].loss == loss);  // the same words are hidden
  for (const Results& r : results) {
    CHECK(r.objective == "masked words");
    CHECK(r.window == "blocks");
    CHECK((r.loss > 0 && std::isfinite(r.loss)));
  }
  CHECK(results[1].count == 36);  // 2 words of every window of 16 in 300 tokens
  e.limit = 10;
  CHECK(message_of([&] { eval(e); }).find("--limit is 10, need 0 or at least 16") != std::string::npos);
  e.windows = {"sliding"};
  CHECK(message_of([&] { eval(e); }).find("leave --window out") != std::string::npos);
  GenerateOptions g;
  g.checkpoint = out;
  CHECK(message_of([&] { generate_text(g); }).find("predicts hidden words") != std::string::npos);
  config.rows = Rows::documents;
  CHECK(message_of([&] { train(config, quiet(folder.file("other"))); }).find("--rows blocks") !=
        std::string::npos);
}

TEST_CASE("lm config: bad values name their option") {
  const auto error = [](auto change) {
    Config c = tiny_config();
    change(c);
    return message_of([&] { validate(c); });
  };
  CHECK(error([](Config&) {}) == "");
  CHECK(error([](Config& c) { c.heads = 3; }).find("--dim is 16") != std::string::npos);
  CHECK(error([](Config& c) { c.dropout = 1; }).find("--dropout") != std::string::npos);
  CHECK(error([](Config& c) { c.kind_options["mu-scope"] = "x"; }).find("--mu-scope") != std::string::npos);
  CHECK(error([](Config& c) { c.attention = "svt"; }).find("causal") != std::string::npos);
  CHECK(error([](Config& c) { c.cutoffs = {10, 5}; }).find("--cutoffs is 10,5") != std::string::npos);
  CHECK(error([](Config& c) { c.objective = Objective::masked; }) == "");
  CHECK(error([](Config& c) {
          c.objective = Objective::masked;
          c.eval_tokens = 10;
        }).find("--eval-tokens is 10") != std::string::npos);
}

TEST_CASE("lm config: options without effect") {
  const auto unused = [](auto change) {
    Config c;
    c.locater = 0.1;
    change(c);
    std::string names;
    for (const auto& option : without_effect(c)) names += option.first + " ";
    return names;
  };
  CHECK(unused([](Config& c) { c.data = "text"; }) == "mask-share div-value locater-unbounded ");
  CHECK(unused([](Config& c) {
          c.objective = Objective::masked;
          c.cutoffs = {100};
          c.tied = false;
          c.locater_form = nn::LocaterForm::tr2;
        }) == "locater-trace locater-beta cache ");
  CHECK(unused([](Config& c) { c.level = Level::byte; }).find("vocabulary-limit min-count ") == 0);
  CHECK(unused([](Config& c) { c.locater = 0; }).find("locater-form locater-trace locater-beta ") !=
        std::string::npos);
}

TEST_CASE("lm config: the grammar's entropy bounds no model of fewer words") {
  const auto bound = [](int64_t limit, int64_t min_count) {
    Config c;
    c.vocabulary =
        data::open_corpus("", {.min_count = min_count, .vocabulary_limit = limit}).vocabulary.list();
    return source_entropy(c);
  };
  CHECK(bound(0, 1) > 0);
  CHECK(bound(5000, 2) == bound(0, 1));
  CHECK(bound(20, 1) == 0);
  CHECK(bound(0, 1000) == 0);
}
