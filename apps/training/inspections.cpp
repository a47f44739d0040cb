#include "apps/training/inspections.h"

#include <cmath>
#include <complex>
#include <filesystem>
#include <limits>

namespace pursuit::apps {

namespace {

using Json = nlohmann::ordered_json;
using Layers = std::vector<nn::LayerMeasures>;

double number_of(const Json& json) {
  if (json.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!json.is_number()) fail("inspect", "a number of inspect.json is " + json.dump());
  return json.get<double>();
}

std::vector<double> numbers_of(const Json& json) {
  if (!json.is_array()) fail("inspect", "a list of inspect.json is " + json.dump().substr(0, 40));
  std::vector<double> values;
  for (const Json& value : json) values.push_back(number_of(value));
  return values;
}

Json head_to_json(const nn::HeadMeasures& h) {
  Json json;
  nn::for_each_number(h, [&](const char* name, double x, bool) { json[name] = x; });
  json["qk_width"] = h.w.width;
  json["qk_trace"] = h.w.trace;
  json["qk_frobenius2"] = h.w.frobenius2;
  json["qk_trace_of_square"] = h.w.trace_of_square;
  json["r"] = h.w.concentration();
  json["r_of_square"] = h.w.concentration_of_square();
  json["eigenvalues"] = Json::array();
  for (const std::complex<double>& v : h.eigenvalues) json["eigenvalues"].push_back({v.real(), v.imag()});
  json["spectrum"] = h.spectrum;
  json["keys"] = h.keys;
  json["pursuit"] = Json::array();
  for (const nn::PursuitMeasures& p : h.pursuit)
    json["pursuit"].push_back(
        {{"low_rank", p.low_rank}, {"sparse", p.sparse}, {"share", p.share}, {"residual", p.residual}});
  if (h.scaled)
    json["scaled"] = {{"learned", h.scaled->learned},
                      {"analytic", h.scaled->analytic},
                      {"distance", h.scaled->distance},
                      {"cosine", h.scaled->cosine}};
  return json;
}

nn::HeadMeasures head_from_json(const Json& json) {
  nn::HeadMeasures h;
  nn::for_each_number(h, [&](const char* name, double& x, bool) { x = number_of(json.at(name)); });
  h.w = {member_of<int64_t>(json, "qk_width"), number_of(json.at("qk_trace")),
         number_of(json.at("qk_frobenius2")), number_of(json.at("qk_trace_of_square"))};
  for (const Json& v : json.at("eigenvalues"))
    h.eigenvalues.emplace_back(number_of(v.at(0)), number_of(v.at(1)));
  h.spectrum = numbers_of(json.at("spectrum"));
  h.keys = numbers_of(json.at("keys"));
  for (const Json& p : json.at("pursuit"))
    h.pursuit.push_back({numbers_of(p.at("low_rank")), numbers_of(p.at("sparse")), number_of(p.at("share")),
                         number_of(p.at("residual"))});
  if (json.contains("scaled")) {
    const Json& s = json.at("scaled");
    h.scaled = {number_of(s.at("learned")), number_of(s.at("analytic")), number_of(s.at("distance")),
                number_of(s.at("cosine"))};
  }
  return h;
}

}  // namespace

double mean_over_heads(const nn::LayerMeasures& layer,
                       const std::function<double(const nn::HeadMeasures&)>& get) {
  double sum = 0;
  for (const nn::HeadMeasures& h : layer.heads) sum += get(h);
  return sum / double(layer.heads.size());
}

namespace {

Json output_to_json(const nn::OutputMeasures& m) {
  return {{"infinity_norm", m.infinity_norm}, {"kurtosis", m.kurtosis}, {"outliers", m.outliers}};
}

nn::OutputMeasures output_from_json(const Json& json) {
  return {number_of(json.at("infinity_norm")), number_of(json.at("kurtosis")),
          json.contains("outliers") ? numbers_of(json.at("outliers"))
                                    : std::vector<double>{}};  // of older versions
}

}  // namespace

nlohmann::ordered_json to_json(const Layers& layers) {
  Json all = Json::array();
  for (const nn::LayerMeasures& layer : layers) {
    all.push_back({{"name", layer.name},
                   {"kind", layer.kind},
                   {"causal", layer.causal},
                   {"j_proj_published_log", layer.published_log()},
                   {"heads", Json::array()}});
    all.back().update(output_to_json(layer.output));
    if (layer.mlp) all.back()["mlp"] = output_to_json(*layer.mlp);
    if (const auto& q = layer.quiet)
      all.back()["quiet"] = {{"head", q->head},
                             {"update", q->update},
                             {"attention", q->attention},
                             {"values", q->values},
                             {"outputs", q->outputs}};
    for (const nn::HeadMeasures& h : layer.heads) all.back()["heads"].push_back(head_to_json(h));
  }
  return all;
}

std::vector<nn::LayerMeasures> layers_from_json(const Json& json) {
  Layers all;
  for (const Json& one : json) {
    nn::LayerMeasures layer{.name = one.at("name").get<std::string>(),
                            .kind = one.at("kind").get<std::string>(),
                            .causal = one.at("causal").get<bool>(),
                            .output = output_from_json(one)};
    if (one.contains("mlp")) layer.mlp = output_from_json(one.at("mlp"));
    if (one.contains("quiet")) {
      const Json& q = one.at("quiet");
      layer.quiet = {member_of<int64_t>(q, "head"), number_of(q.at("update")), numbers_of(q.at("attention")),
                     numbers_of(q.at("values")), numbers_of(q.at("outputs"))};
    }
    for (const Json& head : one.at("heads")) layer.heads.push_back(head_from_json(head));
    if (layer.heads.empty()) fail("inspect", layer.name + " has no heads");
    for (const nn::HeadMeasures& h : layer.heads)
      if (h.pursuit.size() != layer.heads[0].pursuit.size())
        fail("inspect", "heads of " + layer.name + " have different numbers of iterations");
    all.push_back(std::move(layer));
  }
  return all;
}

std::string inspections_path(const std::string& folder) {
  return (std::filesystem::path(folder) / "inspections.jsonl").string();
}

std::vector<Metric> inspection_metrics(const Layers& layers) {
  const auto mean = [&](const std::function<double(const nn::HeadMeasures&)>& get) {
    double sum = 0;
    for (const nn::LayerMeasures& layer : layers) sum += mean_over_heads(layer, get) / double(layers.size());
    return sum;
  };
  double log = 0;
  for (const nn::LayerMeasures& layer : layers) {
    log += layer.published_log() / double(layers.size());
  }
  std::vector<Metric> all;
  const auto add = [&](const std::string& name, double value) {
    all.push_back({"inspect_" + name, "inspect/" + name, value});
  };
  add("entropy", mean([](const auto& h) { return h.entropy; }));
  add("rank_residual", mean([](const auto& h) { return h.rank_residual; }));
  add("token_cosine", mean([](const auto& h) { return h.token_cosine; }));
  add("r", mean([](const auto& h) { return h.w.concentration(); }));
  add("r_of_square", mean([](const auto& h) { return h.w.concentration_of_square(); }));
  add("j_proj", mean([](const auto& h) { return h.projection.paper; }));
  add("j_proj_published_log", log);
  add("j_proj_reproduction", mean([](const auto& h) { return h.projection.reproduction; }));
  add("query_norm2", mean([](const auto& h) { return h.projection.query; }));
  add("output_norm2", mean([](const auto& h) { return h.projection.output; }));
  add("gamma_relative", mean([](const auto& h) { return h.learned.relative; }));
  add("control_relative", mean([](const auto& h) { return h.control.relative; }));
  // Of the layers that have them: the largest norm, the mean kurtosis, all outliers.
  const auto add_outputs = [&](const std::string& of, const auto& get) {
    double largest = 0, kurtosis = 0, outliers = 0;
    int64_t count = 0;
    for (const nn::LayerMeasures& layer : layers)
      if (const nn::OutputMeasures* m = get(layer)) {
        largest = std::max(largest, m->infinity_norm);
        kurtosis += m->kurtosis;
        outliers += m->outlier_count();
        ++count;
      }
    if (count == 0) return;
    add(of + "infinity_norm", largest);
    add(of + "kurtosis", kurtosis / double(count));
    add(of + "outliers", outliers);
  };
  add_outputs("", [](const nn::LayerMeasures& layer) { return &layer.output; });
  add_outputs("mlp_", [](const nn::LayerMeasures& layer) { return layer.mlp ? &*layer.mlp : nullptr; });
  return all;
}

}  // namespace pursuit::apps
