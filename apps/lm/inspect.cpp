#include "apps/lm/inspect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace pursuit::lm {

namespace {

// Sums of the entropies over rows without gaps, [depth, heads].
std::vector<double> mean_entropies(const nn::TransformerLm& model, data::TextBatches& rows,
                                   int64_t& sequences) {
  const nn::LmConfig& c = model.config();
  const Device device = model.embed_weight.device();
  std::vector<double> sums(size_t(c.depth * c.heads), 0.0);
  data::TextBatch batch;
  int64_t count = 0;
  for (int64_t b = 0; b < rows.batches() && count < sequences; ++b) {
    rows.get(0, b, batch);
    std::vector<int32_t> ids;
    const size_t length = size_t(rows.length());
    for (size_t at = 0; at < batch.ids.size() && count < sequences; at += length) {
      // A row that is filled up would count its filling.
      if (batch.labels[at + length - 1] < 0) continue;
      ids.insert(ids.end(), batch.ids.begin() + std::ptrdiff_t(at),
                 batch.ids.begin() + std::ptrdiff_t(at + length));
      ++count;
    }
    if (ids.empty()) continue;
    const int64_t n = int64_t(ids.size() / length);
    const std::vector<double> mean =
        model.attention_entropy(from_vector(ids, {n, rows.length()}, device)).to_vector();
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += mean[i] * double(n);
  }
  sequences = count;
  for (double& sum : sums) sum /= double(std::max<int64_t>(count, 1));
  return sums;
}

std::string name_of(const HeadFacts& h) { return fmt::format("layer {}, head {}", h.layer, h.head); }

// Charts of many heads can no longer be told apart.
constexpr size_t most_lines = 8;

}  // namespace

double Inspection::even_entropy() const { return std::lgamma(double(tokens) + 1) / double(tokens); }

std::vector<double> Inspection::propagation(const HeadFacts& head) const {
  return nn::signal_propagation(head.w, temperature, tokens);
}

Inspection inspect(const nn::TransformerLm& model, data::TextBatches& rows, int64_t sequences) {
  const nn::LmConfig& c = model.config();
  const std::vector<double> entropies = mean_entropies(model, rows, sequences);
  Inspection out{rows.length(), sequences, std::sqrt(double(c.dim) / double(c.heads)), {}};
  for (int64_t layer = 0; layer < c.depth; ++layer)
    for (int64_t head = 0; head < c.heads; ++head) {
      const nn::Attention& attention = model.attention(int(layer));
      const Tensor query = attention.query_weight(head), key = attention.key_weight(head);
      out.heads.push_back({layer, head, entropies[size_t(layer * c.heads + head)],
                           nn::qk_statistics(query, key), nn::qk_eigenvalues(query, key)});
    }
  return out;
}

nlohmann::ordered_json summary(const Inspection& inspection) {
  double entropy = 0, trace = 0, norm = 0, square = 0, concentration = 0;
  for (const HeadFacts& h : inspection.heads) {
    entropy += h.entropy;
    trace += h.w.trace;
    norm += std::sqrt(h.w.frobenius2);
    square += h.w.trace_of_square;
    concentration += h.w.concentration();
  }
  const double n = double(inspection.heads.size());
  return {{"attention_entropy", entropy / n},
          {"qk_trace", trace / n},
          {"qk_norm", norm / n},
          {"qk_trace_of_square", square / n},
          {"qk_concentration", concentration / n}};
}

nlohmann::ordered_json to_json(const Inspection& inspection) {
  nlohmann::ordered_json json = {{"tokens", inspection.tokens},
                                 {"sequences", inspection.sequences},
                                 {"temperature", inspection.temperature},
                                 {"even_entropy", inspection.even_entropy()}};
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
  }
  return json;
}

Inspection inspection_from_json(const nlohmann::ordered_json& json) {
  Inspection out{json.at("tokens"), json.at("sequences"), json.at("temperature"), {}};
  for (const auto& h : json.at("heads")) {
    HeadFacts facts{h.at("layer"),
                    h.at("head"),
                    h.at("entropy"),
                    {h.at("width"), h.at("trace"), h.at("frobenius2"), h.at("trace_of_square")},
                    {}};
    for (const auto& v : h.at("eigenvalues")) facts.eigenvalues.emplace_back(v.at(0), v.at(1));
    out.heads.push_back(std::move(facts));
  }
  return out;
}

apps::Table to_table(const Inspection& inspection) {
  apps::Table table{{"layer", "head", "entropy", "tr W", "|W|_F", "tr W^2", "r", "largest eigenvalue"}, {}};
  for (const HeadFacts& h : inspection.heads) {
    const std::complex<double> top = h.eigenvalues.empty() ? 0 : h.eigenvalues[0];
    table.rows.push_back(
        {std::to_string(h.layer), std::to_string(h.head), fmt::format("{:.3f}", h.entropy),
         fmt::format("{:.3f}", h.w.trace), fmt::format("{:.3f}", std::sqrt(h.w.frobenius2)),
         fmt::format("{:.3f}", h.w.trace_of_square), fmt::format("{:.2f}", h.w.concentration()),
         top.imag() == 0 ? fmt::format("{:.3f}", top.real())
                         : fmt::format("{:.3f} ± {:.3f}i", top.real(), std::abs(top.imag()))});
  }
  return table;
}

void add_inspection(apps::Report& report, const Inspection& inspection) {
  report.section("Attention");
  report.table(
      to_table(inspection),
      fmt::format(
          "W is the query-key matrix of a head; r = tr W / |W|_F, at most {:.1f}, says how concentrated "
          "its eigenvalues are. Entropy in nats over {} windows of {} tokens; attention that is even over "
          "all it sees has {:.3f}.",
          std::sqrt(inspection.heads.empty() ? 0.0 : double(inspection.heads[0].w.width)),
          inspection.sequences, inspection.tokens, inspection.even_entropy()));
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
  if (inspection.heads.size() > most_lines)
    spectrum.caption = propagation.caption =
        fmt::format("The first {} of {} heads.", most_lines, inspection.heads.size());
  propagation.caption +=
      " By the formula for tokens that are a random walk: flat where attention is even, a step "
      "where it is localised.";
  report.chart(spectrum);
  report.chart(propagation);
}

}  // namespace pursuit::lm
