#include "apps/study/inspection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <filesystem>
#include <functional>
#include <limits>

#include "apps/run/files.h"
#include "apps/run/metrics.h"
#include "apps/run/run_lock.h"
#include "apps/terminal/print.h"

namespace pursuit::apps {

namespace {

using Json = nlohmann::ordered_json;
using Layers = std::vector<nn::LayerMeasures>;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
// More lines in a chart could not be told apart.
constexpr size_t most_lines = 8;

std::vector<double> mean_values(
    const nn::LayerMeasures& layer,
    const std::function<const std::vector<double>&(const nn::HeadMeasures&)>& get) {
  std::vector<double> mean;
  for (const nn::HeadMeasures& h : layer.heads) {
    const std::vector<double>& values = get(h);
    mean.resize(std::max(mean.size(), values.size()));
    for (size_t i = 0; i < values.size(); ++i) mean[i] += values[i] / double(layer.heads.size());
  }
  return mean;
}

std::string text_of(double x) { return std::isfinite(x) ? fmt::format("{:.3g}", x) : "-"; }

Table head_table(const Layers& layers) {
  Table table{{"layer", "head", "entropy", "r", "r'", "residual", "cosine"}, {}};
  for (const nn::LayerMeasures& layer : layers)
    for (size_t i = 0; i < layer.heads.size(); ++i) {
      const nn::HeadMeasures& h = layer.heads[i];
      table.rows.push_back({layer.name, std::to_string(i), fmt::format("{:.3f}", h.entropy),
                            text_of(h.w.concentration()), text_of(h.w.concentration_of_square()),
                            text_of(h.rank_residual), text_of(h.token_cosine)});
    }
  return table;
}

Table layer_table(const Layers& layers) {
  Table table{{"layer", "output", "largest", "kurtosis", "outliers", "most in"}, {}};
  const auto add = [&](const std::string& layer, const std::string& of, const nn::OutputMeasures& m) {
    const int64_t dimension = m.outlier_dimension();
    table.rows.push_back({layer, of, text_of(m.infinity_norm), text_of(m.kurtosis),
                          text_of(m.outlier_count()),
                          dimension < 0 ? "-" : fmt::format("dimension {}", dimension)});
  };
  for (const nn::LayerMeasures& layer : layers) {
    add(layer.name, layer.kind, layer.output);
    if (layer.mlp) add(layer.name, "MLP", *layer.mlp);
  }
  return table;
}

// One row per layer, with the means over its heads.
Table table_of_means(const Layers& layers, const std::vector<std::string>& columns,
                     const std::vector<std::function<double(const nn::HeadMeasures&)>>& cells) {
  Table table{columns, {}};
  for (const nn::LayerMeasures& layer : layers) {
    table.rows.push_back({layer.name});
    for (const auto& cell : cells) table.rows.back().push_back(text_of(mean_over_heads(layer, cell)));
  }
  return table;
}

Table projection_table(const Layers& layers) {
  Table table = table_of_means(
      layers, {"layer", "|varphi(q)|^2", "|h|^2", "J_proj", "reproduction", "exact values"},
      {[](const auto& h) { return h.projection.query; }, [](const auto& h) { return h.projection.output; },
       [](const auto& h) { return h.projection.paper; },
       [](const auto& h) { return h.projection.reproduction; }, [](const auto& h) { return h.exact; }});
  table.columns.push_back("published, log");
  for (size_t i = 0; i < layers.size(); ++i) table.rows[i].push_back(text_of(layers[i].published_log()));
  return table;
}

double value_at(const std::vector<double>& values, double place) {
  return values.empty() ? nan : values[size_t(place * double(values.size() - 1))];
}

Table gram_table(const Layers& layers) {
  return table_of_means(
      layers,
      {"layer", "trace", "largest", "median", "gamma", "deviation", "relative", "of random", "cosine",
       "of random", "CKA of V"},
      {[](const auto& h) { return h.trace; }, [](const auto& h) { return value_at(h.spectrum, 0); },
       [](const auto& h) { return value_at(h.spectrum, 0.5); },
       [](const auto& h) { return h.learned.spread; }, [](const auto& h) { return h.learned.deviation; },
       [](const auto& h) { return h.learned.relative; }, [](const auto& h) { return h.control.relative; },
       [](const auto& h) { return h.learned.cosine; }, [](const auto& h) { return h.control.cosine; },
       [](const auto& h) { return h.cka; }});
}

Table pursuit_table(const Layers& layers) {
  Table table{{"layer", "iteration", "largest of K", "of L", "of S", "share of S", "residual"}, {}};
  for (const nn::LayerMeasures& layer : layers)
    for (size_t t = 0; t < layer.heads[0].pursuit.size(); ++t)
      table.rows.push_back(
          {layer.name, std::to_string(t + 1),
           text_of(mean_over_heads(layer, [](const auto& h) { return value_at(h.keys, 0); })),
           text_of(mean_over_heads(layer, [&](const auto& h) { return value_at(h.pursuit[t].low_rank, 0); })),
           text_of(mean_over_heads(layer, [&](const auto& h) { return value_at(h.pursuit[t].sparse, 0); })),
           text_of(mean_over_heads(layer, [&](const auto& h) { return h.pursuit[t].share; })),
           text_of(mean_over_heads(layer, [&](const auto& h) { return h.pursuit[t].residual; }))});
  return table;
}

Table scaled_table(const Layers& layers) {
  Table table{{"layer", "head", "|S v| / |v|", "of remark 3", "distance", "cosine"}, {}};
  for (const nn::LayerMeasures& layer : layers)
    for (size_t i = 0; i < layer.heads.size(); ++i)
      if (const auto& s = layer.heads[i].scaled)
        table.rows.push_back({layer.name, std::to_string(i), text_of(s->learned), text_of(s->analytic),
                              text_of(s->distance), text_of(s->cosine)});
  return table;
}

const std::vector<std::pair<std::string, std::string>>& captions() {
  static const std::vector<std::pair<std::string, std::string>> all = {
      {"Heads",
       "Entropy of the attention in nats. r = tr W / |W|_F and r' = tr W / sqrt(tr W^2) of the query-key "
       "matrix. Residual |U - mean token|_F / |U|_F and mean cosine of the output tokens U: 0 and 1 where "
       "the rank has collapsed."},
      {"Outputs",
       "The largest absolute value and the kurtosis of the output of a layer's attention and MLP, without "
       "the residual (a normal distribution has 3). Outliers are more than 6 standard deviations from the "
       "mean of a sample's output; their number in a sample, and the dimension with most of them."},
      {"Projection error",
       "Means over the heads of |varphi(q)|^2, of the squared output |h|^2, and of their difference J_proj; "
       "its absolute value as in the critical reproduction; J_proj with the exact values of kernel PCA, "
       "which is never negative; and the logarithm that the published code takes of its own form."},
      {"Eigenvectors of the Gram matrix",
       "Trace and eigenvalues of the centred Gram matrix of the keys in feature space. gamma is the mean "
       "difference of the ratios (K a) / (N a) over pairs of tokens, 0 if the coefficients a that the "
       "values imply are eigenvectors; relative to the ratios' size, and beside it the same of random "
       "coefficients. The cosine of a and K a is 1 for an eigenvector. CKA of the values and of those that "
       "kernel PCA predicts."},
      {"Principal component pursuit",
       "Largest singular values of the keys K, of L and of S after every iteration, the share of S that is "
       "not 0, and |K - L - S|_F / |K|_F; means over the heads."},
      {"Scaled Attention",
       "What S takes of the values, beside the S of remark 3; |S - S*|_F / |S*|_F and the cosine of both."}};
  return all;
}

LineSeries series(const std::string& name, const std::vector<double>& values, bool dashed = false) {
  LineSeries line{.name = name, .dashed = dashed};
  for (size_t i = 0; i < values.size(); ++i) line.points.emplace_back(double(i + 1), values[i]);
  return line;
}

void add_spectra(Report& report, const Layers& layers) {
  LineChart chart{"Eigenvalues of the centred Gram matrix", "component", "mean over the heads", {}};
  chart.log_y = true;
  for (const nn::LayerMeasures& layer : layers) {
    const std::vector<double> mean = mean_values(
        layer, [](const auto& h) -> const auto& { return h.spectrum; });
    if (!mean.empty() && chart.series.size() < 2 * most_lines)
      chart.series.push_back(series(layer.name, mean));
  }
  if (!chart.series.empty()) report.chart(chart);
}

void add_gammas(Report& report, const Layers& layers) {
  LineChart chart{"Spread of gamma relative to its size", "layer", "mean over the heads", {}};
  LineSeries learned{.name = "learned values"}, random{.name = "random", .dashed = true};
  for (size_t i = 0; i < layers.size(); ++i) {
    learned.points.emplace_back(double(i),
                                mean_over_heads(layers[i], [](const auto& h) { return h.learned.relative; }));
    random.points.emplace_back(double(i),
                               mean_over_heads(layers[i], [](const auto& h) { return h.control.relative; }));
  }
  chart.series = {learned, random};
  chart.caption = "0 if the values are those of kernel PCA.";
  if (layers.size() > 1) report.chart(chart);
}

// Where the head attends that adds least to the stream.
void add_quiet_head(Report& report, const Layers& layers) {
  const nn::LayerMeasures* least = nullptr;
  for (const nn::LayerMeasures& layer : layers)
    if (layer.quiet && (!least || layer.quiet->update < least->quiet->update)) least = &layer;
  if (!least) return;
  const nn::QuietHead& q = *least->quiet;
  LineChart chart{fmt::format("The quietest head: {}, head {}", least->name, q.head), "token", "", {}};
  const auto relative = [&](const char* name, const std::vector<double>& values, double to, bool dashed) {
    std::vector<double> all;
    for (const double v : values) all.push_back(v / to);
    chart.series.push_back(series(name, all, dashed));
  };
  const auto mean = [](const std::vector<double>& values) {
    double sum = 0;
    for (const double v : values) sum += v / double(values.size());
    return sum > 0 ? sum : 1;
  };
  relative("attention to the token, over its mean", q.attention, mean(q.attention), false);
  relative("|v| of the token, over its mean", q.values, mean(q.values), true);
  relative("|u| of its output, over the mean of |v|", q.outputs, mean(q.values), true);
  chart.caption = fmt::format(
      "Of all heads this one adds least to the stream in the first sample: |U| / |V| = {:.2g}. A head that "
      "does "
      "nothing attends to tokens whose values are small (Bondarenko et al. 2023), or its probabilities or "
      "gate "
      "are 0.",
      q.update);
  report.chart(chart);
}

void add_pursuit(Report& report, const Layers& layers) {
  for (const nn::LayerMeasures& layer : layers) {
    if (layer.heads[0].pursuit.empty()) continue;
    LineChart chart{"Singular values in " + layer.name, "place", "mean over the heads", {}};
    chart.log_y = true;
    chart.series.push_back(series("K", mean_values(
                                           layer, [](const auto& h) -> const auto& { return h.keys; })));
    const size_t steps = layer.heads[0].pursuit.size();
    for (const size_t t : {size_t(0), steps - 1}) {
      const auto name = [&](const char* of) { return fmt::format("{} after {}", of, t + 1); };
      chart.series.push_back(
          series(name("L"), mean_values(
                                layer, [&](const auto& h) -> const auto& { return h.pursuit[t].low_rank; })));
      chart.series.push_back(
          series(name("S"),
                 mean_values(
                     layer, [&](const auto& h) -> const auto& { return h.pursuit[t].sparse; }),
                 true));
      if (steps == 1) break;
    }
    return report.chart(chart);
  }
}

// The eigenvalues of W_QK of all heads: of a series per layer, or of a series per step.
void add_scatter(Report& report, const std::vector<std::pair<std::string, Layers>>& groups,
                 const std::string& caption) {
  LineChart chart{"Eigenvalues of W_QK", "real part", "imaginary part", {}};
  chart.caption = caption;
  for (const auto& [name, layers] : groups) {
    if (chart.series.size() == most_lines) break;
    LineSeries dots{.name = name, .dots = true};
    for (const nn::LayerMeasures& layer : layers)
      for (const nn::HeadMeasures& h : layer.heads)
        for (const std::complex<double>& v : h.eigenvalues) dots.points.emplace_back(v.real(), v.imag());
    std::sort(dots.points.begin(), dots.points.end());
    if (!dots.points.empty()) chart.series.push_back(std::move(dots));
  }
  if (!chart.series.empty()) report.chart(chart);
}

Inspection inspection_from_json(const Json& json) {
  return {conditions_from_json(json.at("conditions"), "samples"), layers_from_json(json.at("layers"))};
}

}  // namespace

nlohmann::ordered_json to_json(const Inspection& inspection) {
  return {{"conditions", to_json(inspection.conditions, "samples")},
          {"layers", to_json(inspection.layers)},
          {"notes", nn::AttentionInspection::notes(inspection.layers)}};
}

std::vector<std::pair<std::string, Table>> to_tables(const Layers& layers) {
  std::vector<std::pair<std::string, Table>> tables = {
      {captions()[0].first, head_table(layers)},       {captions()[1].first, layer_table(layers)},
      {captions()[2].first, projection_table(layers)}, {captions()[3].first, gram_table(layers)},
      {captions()[4].first, pursuit_table(layers)},    {captions()[5].first, scaled_table(layers)}};
  std::erase_if(tables, [](const auto& t) { return t.second.rows.empty(); });
  return tables;
}

void print(const Layers& layers) {
  for (const auto& [title, table] : to_tables(layers)) print("{}\n{}\n", title, Lines{to_text(table)});
  for (const std::string& line : nn::AttentionInspection::notes(layers)) print("{}\n", line);
}

void add_layers(Report& report, const Layers& layers, const std::string& measured_on) {
  report.section("Attention as kernel PCA");
  report.paragraph(
      "Teo & Nguyen (2024) read attention as the projection of the queries onto the principal axes of the "
      "keys in feature space. " +
      measured_on);
  for (const auto& [title, table] : to_tables(layers))
    for (const auto& [of, caption] : captions())
      if (of == title) {
        report.heading(title);
        report.table(table, caption);
      }
  for (const std::string& line : nn::AttentionInspection::notes(layers)) report.paragraph(line);
  add_spectra(report, layers);
  add_gammas(report, layers);
  add_pursuit(report, layers);
  add_quiet_head(report, layers);
  std::vector<std::pair<std::string, Layers>> groups;
  for (const nn::LayerMeasures& layer : layers) groups.push_back({layer.name, {layer}});
  add_scatter(
      report, groups,
      groups.size() > most_lines ? fmt::format("The first {} of {} layers.", most_lines, groups.size()) : "");
}

std::string inspection_path(const std::string& folder) {
  return (std::filesystem::path(folder) / "inspect.json").string();
}
std::string film_path(const std::string& folder) {
  return (std::filesystem::path(folder) / "inspect.png").string();
}

void write_inspection(const std::string& folder, const std::string& run, const Json& inspection,
                      const data::Image& film) {
  const FolderLock lock(folder);
  if (run != run_id(folder))
    fail("inspect", folder +
                        ": another training has begun there since the weights were loaded; their inspection "
                        "is not written to its inspect.json");
  write_file_atomically(inspection_path(folder), inspection.dump() + "\n");
  std::filesystem::remove(film_path(folder));
  if (!film.pixels.empty()) data::write_png(film_path(folder), film);
}

std::vector<Curve> inspection_curves() {
  const std::string unit = "mean over layers and heads";
  return {
      {.title = "J_proj",
       .unit = unit,
       .lines = {{"inspect_j_proj", "paper"},
                 {.key = "inspect_j_proj_reproduction", .name = "reproduction", .dashed = true},
                 {"inspect_output_norm2", "|h|^2"},
                 {"inspect_query_norm2", "|varphi(q)|^2"}}},
      {.title = "J_proj as published",
       .unit = "mean over the layers of the logarithm",
       .lines = {{"inspect_j_proj_published_log", "published"}}},
      {.title = "Spread of gamma relative to its size",
       .unit = unit,
       .lines = {{"inspect_gamma_relative", "learned values"},
                 {.key = "inspect_control_relative", .name = "random", .dashed = true}}},
      {.title = "Entropy of the attention",
       .unit = "nats, " + unit,
       .lines = {{"inspect_entropy", "entropy"}}},
      {.title = "Rank collapse",
       .unit = unit,
       .lines = {{"inspect_rank_residual", "residual"}, {"inspect_token_cosine", "cosine of the tokens"}}},
      {.title = "r of W_QK", .unit = unit, .lines = {{"inspect_r", "r"}, {"inspect_r_of_square", "r'"}}},
      {.title = "Kurtosis of the outputs",
       .unit = "mean over the layers",
       .lines = {{"inspect_kurtosis", "attention"}, {.key = "inspect_mlp_kurtosis", .name = "MLP"}}},
      {.title = "Outliers of the outputs",
       .unit = "of 6 standard deviations, in a sample of all layers",
       .lines = {{"inspect_outliers", "attention"}, {.key = "inspect_mlp_outliers", .name = "MLP"}}},
      {.title = "Largest output",
       .unit = "of all layers",
       .lines = {{"inspect_infinity_norm", "attention"},
                 {.key = "inspect_mlp_infinity_norm", .name = "MLP"}}}};
}

void show_inspections(RunFolder& run, RunPage& page, bool with_inspection) {
  std::optional<Inspection> inspection;
  data::Image film;
  std::vector<std::pair<std::string, Layers>> over_training;
  if (with_inspection)
    run.attempt("inspect.json", [&](const std::string& file) {
      try {
        inspection = inspection_from_json(read_json_object(file));
        nn::AttentionInspection::notes(inspection->layers);  // throws for a kind that there is not
      } catch (const std::exception& e) {
        fail("report", fmt::format("{} is damaged ({}); run `inspect` again", file, e.what()));
      }
    });
  run.attempt("inspect.png", [&](const std::string& file) { film = data::read_image(file); });
  run.attempt("inspections.jsonl", [&](const std::string& file) {
    try {
      const std::vector<Json> lines = read_metrics(file);
      // The first, the last, and some between.
      const size_t count = std::min<size_t>(4, lines.size());
      for (size_t i = 0; i < count; ++i) {
        const Json& line = lines[count > 1 ? i * (lines.size() - 1) / (count - 1) : 0];
        over_training.emplace_back(fmt::format("step {}", member_of<int64_t>(line, "step")),
                                   layers_from_json(line.at("layers")));
      }
    } catch (const std::exception& e) {
      over_training.clear();
      fail("report", fmt::format("{} is damaged ({}); remove it", file, e.what()));
    }
  });
  for (const Curve& curve : inspection_curves()) page.curves.push_back(curve);
  page.results = [before = page.results, inspection, film, over_training](Report& report) {
    if (before) before(report);
    if (inspection)
      add_layers(report, inspection->layers,
                 "Measured on " + describe(inspection->conditions, "samples") + ".");
    if (!film.pixels.empty())
      report.pictures(
          {.title = "Low-rank and sparse parts of the keys on a picture",
           .pictures = {{film}},
           .columns = 1,
           .caption = "After every iteration the norm of a token's row of L (above) and of S (below), mean "
                      "over the heads, each scaled to its own range."});
    if (over_training.size() > 1) {
      report.heading("Over training");
      add_scatter(report, over_training, "All heads of all layers.");
    }
  };
}

}  // namespace pursuit::apps
