#include "apps/lm/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>

#include "apps/lm/commands.h"
#include "apps/lm/results.h"
#include "apps/study/inspection.h"
#include "apps/study/loaded_model.h"
#include "apps/terminal/print.h"
#include "apps/training/provenance.h"
#include "apps/training/step_memory.h"
#include "data/fingerprint.h"

namespace pursuit::lm {

namespace {

// The ids of so many rows, evenly spaced, without padding, joined by length, the longest first.
std::map<int64_t, std::vector<int64_t>, std::greater<>> rows_by_length(const data::TextBatches& rows,
                                                                       int64_t& sequences) {
  std::map<int64_t, std::vector<int64_t>, std::greater<>> by_length;
  data::TextBatch row;
  sequences = std::min(sequences, rows.rows());
  for (int64_t i = 0; i < sequences; ++i) {
    rows.get_row(i * rows.rows() / sequences, row);
    std::vector<int64_t>& ids = by_length[row.lengths[0]];
    ids.insert(ids.end(), row.ids.begin(), row.ids.begin() + row.lengths[0]);
  }
  return by_length;
}

// Mean entropies over the queries of these rows, [depth, heads]. Rows of the same length form a batch.
std::vector<double> mean_entropies(const nn::TransformerLm& model, const data::TextBatches& rows,
                                   Inspection& out) {
  const nn::LmConfig& c = model.config();
  const auto by_length = rows_by_length(rows, out.sequences);
  std::vector<double> sums(size_t(c.depth * c.heads), 0.0);
  double queries = 0, even = 0;
  for (const auto& [length, ids] : by_length) {
    const int64_t n = int64_t(ids.size()) / length;
    const Tensor entropy =
        model.attention_entropy(from_vector(ids, {n, length}, model.embed_weight.device()));
    const std::vector<double> mean = entropy.to_vector();
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += mean[i] * double(ids.size());
    queries += double(ids.size());
    // The sum over queries t of log t, or of log length.
    even +=
        double(n) * (c.causal ? std::lgamma(double(length) + 1) : double(length) * std::log(double(length)));
  }
  for (double& sum : sums) sum /= std::max(queries, 1.0);
  out.even_entropy = even / std::max(queries, 1.0);
  return sums;
}

std::string name_of(const HeadFacts& h) { return fmt::format("layer {}, head {}", h.layer, h.head); }

// For example "Measured on the valid split of wikitext-2, 1000 tokens, raw weights, step 10."; empty if the
// file does not say.
std::string measured_on(const Inspection& i) {
  if (i.split.empty()) return "";
  return fmt::format("Measured on the {} split of {}.", i.split, apps::describe(i.conditions, "tokens"));
}

// More lines in a chart could not be told apart.
constexpr size_t most_lines = 8;

// Random walks of the propagation's Monte Carlo value; its standard error is at most 0.008.
constexpr int64_t walks = 4000;

// NaN if either is NaN, which std::max would hide.
double larger(double a, double b) { return std::isnan(a) || a > b ? a : b; }

}  // namespace

std::vector<double> Inspection::propagation(const HeadFacts& head) const {
  return nn::signal_propagation(head.w, temperature, tokens);
}

double Inspection::propagation_error(const HeadFacts& head) const {
  if (head.simulated_propagation.empty()) return std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> rho = propagation(head);
  double largest = 0;
  for (size_t i = 0; i < rho.size(); ++i)
    largest = larger(largest, std::abs(rho[i] - head.simulated_propagation[i]));
  return largest;
}

Inspection inspect(const nn::TransformerLm& model, const data::TextBatches& rows, int64_t sequences) {
  const nn::LmConfig& c = model.config();
  Inspection out;
  out.tokens = rows.length();
  out.sequences = sequences;
  out.temperature = std::sqrt(double(c.dim) / double(c.heads));
  const std::vector<double> entropies = mean_entropies(model, rows, out);
  std::vector<Tensor> query_weights, key_weights;
  for (int64_t layer = 0; layer < c.depth; ++layer) {
    const nn::Attention& attention = model.attention(int(layer));
    query_weights.push_back(attention.query_weights());
    key_weights.push_back(attention.key_weights());
  }
  // All heads together: most of the time goes into drawing the walks.
  const Tensor queries = concat(query_weights, 0), keys = concat(key_weights, 0);
  const Tensor simulated =
      nn::simulated_propagation(queries, keys, out.temperature, out.tokens, walks, /*seed=*/0);
  for (int64_t i = 0; i < c.depth * c.heads; ++i) {
    const Tensor query = queries.select(0, i), key = keys.select(0, i);
    out.heads.push_back({i / c.heads, i % c.heads, entropies[size_t(i)], nn::qk_statistics(query, key),
                         nn::qk_eigenvalues(query, key), simulated.select(0, i).to_vector()});
  }
  return out;
}

void show_rows(const nn::TransformerLm& model, const data::TextBatches& rows, int64_t sequences,
               nn::AttentionInspection& inspection) {
  constexpr int64_t together = 4;
  for (const auto& [length, ids] : rows_by_length(rows, sequences))
    for (int64_t at = 0; at < int64_t(ids.size()); at += together * length) {
      const int64_t end = std::min(int64_t(ids.size()), at + together * length);
      const std::vector<int64_t> some(ids.begin() + at, ids.begin() + end);
      inspection.add([&, length = length] {
        model.features(from_vector(some, {(end - at) / length, length}, model.embed_weight.device()));
      });
    }
}

nlohmann::ordered_json summary(const Inspection& inspection) {
  double entropy = 0, trace = 0, norm = 0, square = 0, concentration = 0, error = 0;
  for (const HeadFacts& h : inspection.heads) {
    entropy += h.entropy;
    trace += h.w.trace;
    norm += std::sqrt(h.w.frobenius2);
    square += h.w.trace_of_square;
    concentration += h.w.concentration();
    error = larger(error, inspection.propagation_error(h));
  }
  const double n = double(inspection.heads.size());
  return {{"attention_entropy", entropy / n},
          {"qk_trace", trace / n},
          {"qk_norm", norm / n},
          {"qk_trace_of_square", square / n},
          {"qk_concentration", concentration / n},
          {"propagation_error", error}};
}

nlohmann::ordered_json to_json(const Inspection& inspection) {
  nlohmann::ordered_json json = {{"conditions", apps::to_json(inspection.conditions, "tokens")},
                                 {"split", inspection.split},
                                 {"tokens", inspection.tokens},
                                 {"sequences", inspection.sequences},
                                 {"temperature", inspection.temperature},
                                 {"even_entropy", inspection.even_entropy}};
  json["heads"] = nlohmann::ordered_json::array();
  for (const HeadFacts& h : inspection.heads) {
    nlohmann::ordered_json values = nlohmann::ordered_json::array();
    for (const std::complex<double>& v : h.eigenvalues) values.push_back({v.real(), v.imag()});
    json["heads"].push_back({{"layer", h.layer},
                             {"head", h.head},
                             {"entropy", h.entropy},
                             {"width", h.w.width},
                             {"trace", h.w.trace},
                             {"frobenius2", h.w.frobenius2},
                             {"trace_of_square", h.w.trace_of_square},
                             {"concentration", h.w.concentration()},
                             {"eigenvalues", values},
                             {"signal_propagation", inspection.propagation(h)}});
    if (!h.simulated_propagation.empty())
      json["heads"].back()["simulated_propagation"] = h.simulated_propagation;
  }
  if (!inspection.layers.empty()) {
    json["layers"] = apps::to_json(inspection.layers);
    json["notes"] = nn::AttentionInspection::notes(inspection.layers);
  }
  return json;
}

Inspection inspection_from_json(const nlohmann::ordered_json& json) {
  Inspection out;
  // Older files have no conditions.
  if (json.contains("conditions")) {
    out.conditions = apps::conditions_from_json(json.at("conditions"), "tokens");
    json.at("split").get_to(out.split);
  }
  out.tokens = apps::member_of<int64_t>(json, "tokens");
  if (out.tokens < 1 || out.tokens > longest_context)
    fail("inspect", fmt::format("'tokens' is {}, need 1 to {}", out.tokens, longest_context));
  out.sequences = apps::member_of<int64_t>(json, "sequences");
  json.at("temperature").get_to(out.temperature);
  json.at("even_entropy").get_to(out.even_entropy);
  for (const auto& h : json.at("heads")) {
    HeadFacts facts{
        apps::member_of<int64_t>(h, "layer"),
        apps::member_of<int64_t>(h, "head"),
        h.at("entropy"),
        {apps::member_of<int64_t>(h, "width"), h.at("trace"), h.at("frobenius2"), h.at("trace_of_square")},
        {},
        {}};
    for (const auto& v : h.at("eigenvalues")) facts.eigenvalues.emplace_back(v.at(0), v.at(1));
    if (h.contains("simulated_propagation")) {
      h.at("simulated_propagation").get_to(facts.simulated_propagation);
      if (int64_t(facts.simulated_propagation.size()) != out.tokens)
        fail("inspect", fmt::format("'simulated_propagation' has {} values for {} tokens",
                                    facts.simulated_propagation.size(), out.tokens));
    }
    out.heads.push_back(std::move(facts));
  }
  if (json.contains("layers")) out.layers = apps::layers_from_json(json.at("layers"));
  nn::AttentionInspection::notes(out.layers);  // throws for a kind that there is not
  return out;
}

void write_inspection(const std::string& folder, const Inspection& inspection) {
  apps::write_inspection(folder, inspection.conditions.run, to_json(inspection));
}

apps::Table to_table(const Inspection& inspection) {
  apps::Table table{{"layer", "head", "entropy", "tr W", "|W|_F", "tr W^2", "r", "largest eigenvalue",
                     "propagation, formula - walks"},
                    {}};
  for (const HeadFacts& h : inspection.heads) {
    const std::complex<double> top = h.eigenvalues.empty() ? 0 : h.eigenvalues[0];
    table.rows.push_back({std::to_string(h.layer), std::to_string(h.head), fmt::format("{:.3f}", h.entropy),
                          fmt::format("{:.3f}", h.w.trace), fmt::format("{:.3f}", std::sqrt(h.w.frobenius2)),
                          fmt::format("{:.3f}", h.w.trace_of_square),
                          fmt::format("{:.2f}", h.w.concentration()),
                          top.imag() == 0 ? fmt::format("{:.3f}", top.real())
                                          : fmt::format("{:.3f} ± {:.3f}i", top.real(), std::abs(top.imag())),
                          fmt::format("{:.3f}", inspection.propagation_error(h))});
  }
  return table;
}

void add_inspection(apps::Report& report, const Inspection& inspection) {
  report.section("Attention");
  report.table(
      to_table(inspection),
      fmt::format(
          "W is the query-key matrix of a head; r = tr W / |W|_F, at most {:.1f}, says how concentrated "
          "its eigenvalues are. Entropy in nats over {} windows of at most {} tokens; attention that is even "
          "over all it sees has {:.3f}. {}",
          std::sqrt(inspection.heads.empty() ? 0.0 : double(inspection.heads[0].w.width)),
          inspection.sequences, inspection.tokens, inspection.even_entropy, measured_on(inspection)));
  apps::LineChart spectrum{"Eigenvalues of W", "by falling modulus", "real part", {}};
  apps::LineChart propagation{"Signal propagation", "token", "probability", {}};
  for (size_t i = 0; i < std::min(most_lines, inspection.heads.size()); ++i) {
    const HeadFacts& h = inspection.heads[i];
    apps::LineSeries values{.name = name_of(h)}, rho{.name = name_of(h)};
    for (size_t j = 0; j < h.eigenvalues.size(); ++j)
      values.points.emplace_back(double(j + 1), h.eigenvalues[j].real());
    const std::vector<double> probabilities = inspection.propagation(h);
    for (size_t j = 0; j < probabilities.size(); ++j)
      rho.points.emplace_back(double(j + 1), probabilities[j]);
    spectrum.series.push_back(std::move(values));
    propagation.series.push_back(std::move(rho));
  }
  // After empty series up to the number of colours, so that a head's two lines have one colour.
  propagation.series.resize(most_lines);
  for (size_t i = 0; i < std::min(most_lines, inspection.heads.size()); ++i) {
    const std::vector<double>& simulated = inspection.heads[i].simulated_propagation;
    apps::LineSeries rho{.name = name_of(inspection.heads[i]) + ", walks", .dashed = true};
    for (size_t j = 0; j < simulated.size(); ++j) rho.points.emplace_back(double(j + 1), simulated[j]);
    propagation.series.push_back(std::move(rho));
  }
  if (inspection.heads.size() > most_lines)
    spectrum.caption = propagation.caption =
        fmt::format("The first {} of {} heads.", most_lines, inspection.heads.size());
  propagation.caption +=
      " For tokens that are a random walk: flat where attention is even, a step where it is localised. "
      "Solid: "
      "by the formula. Dashed: the share of simulated walks.";
  report.chart(spectrum);
  report.chart(propagation);
  if (!inspection.layers.empty()) apps::add_layers(report, inspection.layers, measured_on(inspection));
}

int inspect_run(const InspectOptions& options) {
  const std::string run = apps::run_id(options.checkpoint);
  const auto loaded = apps::load_model<Config>(options.checkpoint, options.load);
  const data::Vocabulary words = vocabulary(loaded.config);
  Config config = loaded.config;
  if (!options.data.empty()) config.data = options.data;
  const data::TextSource source = data::open_text(config.data);
  const std::vector<data::TextFile>& files = files_of(source, data::text_split(options.split), config);
  const data::Tokens tokens = data::encode(files, source.layout, words);
  data::check_same_language(tokens, words, config.unknown_share, files[0].name);
  const data::TextBatches rows(tokens, words.line_end(), evaluation_rows(config));
  apps::require_memory("inspect", loaded.model->embed_weight.device(), "--samples", [&] {
    const int64_t windows = std::min(options.samples, rows.rows());
    loaded.model->attention_entropy(
        empty({windows, config.context}, DType::i64, loaded.model->embed_weight.device()));
  });
  Inspection inspection = inspect(*loaded.model, rows, options.samples);
  nn::AttentionInspection layers(*loaded.model, {.decomposed = options.decomposed});
  show_rows(*loaded.model, rows, options.samples, layers);
  inspection.layers = layers.layers();
  inspection.split = options.split;
  inspection.conditions = apps::conditions(config, loaded.weights, loaded.state.step, run);
  inspection.conditions.data = data_name(config);
  inspection.conditions.fingerprint = data::fingerprint(files, config.data);
  inspection.conditions.count = rows.tokens();
  if (options.json) {
    apps::print("{}\n", to_json(inspection).dump());
  } else {
    apps::print("{}entropy of even attention {:.3f} nats over windows of {} tokens\n\n",
                apps::Lines{apps::to_text(to_table(inspection))}, inspection.even_entropy, inspection.tokens);
    apps::print(inspection.layers);
  }
  if (std::filesystem::is_directory(options.checkpoint)) {
    write_inspection(options.checkpoint, inspection);
    apps::write_report<RunRecord>(options.checkpoint);
  }
  return 0;
}

}  // namespace pursuit::lm
