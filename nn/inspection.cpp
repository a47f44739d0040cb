#include "nn/inspection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>

#include "engine/base/streams.h"
#include "engine/ops.h"
#include "nn/observer.h"

namespace pursuit::nn {

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// Where a pursuit is said to have split the keys.
constexpr double split_residual = 0.01;

double norm(const Tensor& x) { return std::sqrt(sum(square(x)).item()); }

double entropy_of(const Tensor& p) {
  constexpr double least = 1e-300;  // so that 0 log 0 = 0
  return -mean(sum(p * log(clamp(p, least, INFINITY)), {1})).item();
}

// The mean over pairs of different rows.
double mean_cosine(const Tensor& u) {
  const double n = double(u.size(0));
  const Tensor unit = u / sqrt(sum(square(u), {1}, true));
  return (sum(square(sum(unit, {0}))).item() - n) / (n * (n - 1));
}

double kurtosis_of(const Tensor& x) {
  const Tensor squares = square(x - mean(x));
  const double variance = mean(squares).item();
  return variance > 0 ? mean(square(squares)).item() / (variance * variance) : 0;
}

// Sums over the samples, weighted by their tokens.
struct OutputSums {
  OutputMeasures sums = {};
  double weight = 0;
  int64_t samples = 0;

  void add(const Tensor& x) {  // [N, dim], f64 on the CPU
    sums.infinity_norm = std::max(sums.infinity_norm, abs(x).max().item());
    sums.kurtosis += double(x.size(0)) * kurtosis_of(x);
    constexpr double far = 6;
    const double centre = mean(x).item(), limit = far * std::sqrt(mean(square(x - centre)).item());
    sums.outliers.resize(size_t(x.size(1)));
    const std::vector<double> values = x.to_vector();
    for (size_t i = 0; i < values.size(); ++i)
      if (std::abs(values[i] - centre) > limit) ++sums.outliers[i % sums.outliers.size()];
    weight += double(x.size(0));
    ++samples;
  }

  OutputMeasures mean_of() const {
    OutputMeasures m = sums;
    m.kurtosis /= weight;
    for (double& count : m.outliers) count /= double(samples);
    return m;
  }
};

PursuitMeasures pursuit_of(const Tensor& keys, const Tensor& low_rank, const Tensor& sparse) {
  PursuitMeasures m;
  m.low_rank = singular_values(low_rank);
  m.sparse = singular_values(sparse);
  m.share = mean((sparse != 0.0).to(DType::f64)).item();
  m.residual = norm(keys - low_rank - sparse) / norm(keys);
  return m;
}

ScaledMeasures scaled_of(const Tensor& keys, const Tensor& values, const Tensor& learned) {
  const Tensor analytic = analytic_s(keys);
  const double size = norm(analytic), v = norm(values);
  return {norm(matmul(learned, values)) / v, norm(matmul(analytic, values)) / v,
          norm(learned - analytic) / size, sum(learned * analytic).item() / (norm(learned) * size)};
}

struct Head {
  const AttentionTensors& tensors;
  int64_t sample, number;
  bool causal, exponential;

  Tensor operator()(const Tensor& x) const {  // its part of x [B, H, N, ...]
    return x.select(0, sample).select(0, number).to(cpu).to(DType::f64).contiguous();
  }
};

void measure_each(const Head& head, HeadMeasures& m) {
  const AttentionTensors& t = head.tensors;
  const Tensor u = head(t.mixed);
  m.entropy = entropy_of(head(t.probabilities));
  m.rank_residual = norm(u - mean(u, {0}, true)) / norm(u);
  m.token_cosine = mean_cosine(u);
  m.projection = head.exponential ? projection_error(head(t.queries), head(t.keys), u, head.causal)
                                  : ProjectionError{nan, nan, nan, nan, nan};
}

// Of one sample [H, N, ...] of each tensor.
QuietHead quiet_head(const Tensor& outputs, const Tensor& values, const Tensor& weights, bool causal) {
  QuietHead least;
  least.update = INFINITY;
  for (int64_t h = 0; h < outputs.size(0); ++h) {
    const Tensor v = values.select(0, h);
    if (const double update = norm(outputs.select(0, h)) / norm(v); update < least.update) {
      least.update = update;
      least.head = h;
    }
  }
  const auto norms = [&](const Tensor& x) {
    return sqrt(sum(square(x.select(0, least.head)), {1})).to_vector();
  };
  least.values = norms(values);
  least.outputs = norms(outputs);
  least.attention = sum(weights.select(0, least.head), {0}).to_vector();
  const size_t n = least.attention.size();
  for (size_t j = 0; j < n; ++j) least.attention[j] /= double(causal ? n - j : n);
  return least;
}

// The measures with eigenvalues and singular values. `control` are random coefficients [N, D].
void measure_decomposed(const Head& head, const Tensor& control, HeadMeasures& m) {
  const AttentionTensors& t = head.tensors;
  const Tensor own = head(t.own_keys);
  m.keys = singular_values(own);
  for (const PursuitStep& step : t.pursuit)
    m.pursuit.push_back(pursuit_of(own, head(step.low_rank), head(step.sparse)));
  if (t.subtracted.defined() && !head.causal)
    m.scaled = scaled_of(own, head(t.own_values), head(t.subtracted));

  m.exact = m.trace = m.cka = nan;
  m.learned = m.control = {nan, nan, nan, nan};
  if (!head.exponential) return;
  const Tensor keys = head(t.keys), values = head(t.values), gram = centred_gram(keys);
  const KernelPca pca = kernel_pca(keys, keys.size(1));
  m.spectrum.assign(pca.eigenvalues.begin(), pca.eigenvalues.begin() + std::min(keys.size(0), keys.size(1)));
  m.trace = std::accumulate(pca.eigenvalues.begin(), pca.eigenvalues.end(), 0.0);
  m.learned = eigenvector_check(gram, implied_coefficients(keys, values));
  m.control = eigenvector_check(gram, control - mean(control, {0}, true));
  if (pca.values.size(1) == 0) return;
  m.cka = linear_cka(values, pca.values);
  if (!head.causal)
    m.exact = m.projection.query - mean(sum(square(matmul(head(t.probabilities), pca.values)), {1})).item();
}

// Calls f(sum, one) for every number of a head but those of for_each_number.
template <class F> void for_each_of_decomposed(HeadMeasures& sum, const HeadMeasures& one, const F& f) {
  const auto lists = [&](std::vector<double>& to, const std::vector<double>& from) {
    to.resize(std::max(to.size(), from.size()));
    for (size_t i = 0; i < from.size(); ++i) f(to[i], from[i]);
  };
  lists(sum.spectrum, one.spectrum);
  lists(sum.keys, one.keys);
  sum.pursuit.resize(one.pursuit.size());
  for (size_t i = 0; i < one.pursuit.size(); ++i) {
    lists(sum.pursuit[i].low_rank, one.pursuit[i].low_rank);
    lists(sum.pursuit[i].sparse, one.pursuit[i].sparse);
    f(sum.pursuit[i].share, one.pursuit[i].share);
    f(sum.pursuit[i].residual, one.pursuit[i].residual);
  }
  if (!one.scaled) return;
  if (!sum.scaled) sum.scaled.emplace();
  f(sum.scaled->learned, one.scaled->learned);
  f(sum.scaled->analytic, one.scaled->analytic);
  f(sum.scaled->distance, one.scaled->distance);
  f(sum.scaled->cosine, one.scaled->cosine);
}

// Adds `weight` times a sample's numbers.
void add_to(HeadMeasures& sum, const HeadMeasures& one, double weight, bool decomposed) {
  std::vector<double> numbers;
  for_each_number(one, [&](const char*, double x, bool) { numbers.push_back(x); });
  size_t i = 0;
  for_each_number(sum, [&](const char*, double& x, bool of_decomposed) {
    if (!of_decomposed || decomposed) x += weight * numbers[i];
    ++i;
  });
  if (decomposed) for_each_of_decomposed(sum, one, [&](double& to, double x) { to += weight * x; });
}

// "blocks.0.mlp.fc1.weight"; empty if the model has no such weight.
std::string name_of_weight(const Module& model, const Tensor& weight) {
  for (const NamedTensor& p : model.state())  // the weights of a quantised model are buffers
    if (p.tensor == &weight) return p.name;
  return "";
}

// "blocks.0" of the layer whose weights are "blocks.0.attn.qkv.weight" or "blocks.0.attn.kv.weight".
std::string name_of(const Module& model, const Attention& layer) {
  std::string name = name_of_weight(model, layer.qkv.weight);
  const std::string own = layer.config().queries_apart ? "kv.weight" : "qkv.weight";
  name.resize(name.size() - std::min(name.size(), own.size()));
  for (const char* end : {".", ".attn"})
    if (name.ends_with(end)) name.resize(name.size() - std::string(end).size());
  return name.empty() ? "attention" : name;
}

}  // namespace

// Sums over the samples, weighted by their tokens.
struct AttentionInspection::Layer {
  const Attention* attention = nullptr;
  LayerMeasures sums = {};
  OutputSums output = {}, mlp = {};
  double weight = 0, decomposed_weight = 0;
  int64_t samples = 0;
};

double LayerMeasures::published_log() const {
  double sum = 0;
  for (const HeadMeasures& h : heads) sum += h.projection.published / double(heads.size());
  return sum > 0 ? std::log(sum) : nan;
}

AttentionInspection::AttentionInspection(const Module& model, const InspectionOptions& options)
    : model_(model), options_(options) {}
AttentionInspection::~AttentionInspection() = default;

void AttentionInspection::add(const std::function<void()>& forward) {
  const NoGrad off;
  const Observer<Attention> of_attention([this](const Attention& layer, const Tensor& x) { see(layer, x); });
  const Observer<Mlp> of_mlp([this](const Mlp& mlp, const Tensor& y) { see(mlp, y); });
  forward();
}

void AttentionInspection::see(const Mlp& mlp, const Tensor& output) {
  constexpr std::string_view own = ".mlp.fc1.weight";
  std::string block = name_of_weight(model_, mlp.fc1.weight);
  if (!block.ends_with(own)) return;
  block.resize(block.size() - own.size());
  const auto found =
      std::find_if(layers_.begin(), layers_.end(), [&](const auto& l) { return l->sums.name == block; });
  if (found == layers_.end()) return;
  const Tensor y = output.to(cpu).to(DType::f64);
  if (!std::isfinite(sum(y).item()))
    fail("inspect", block + ": the MLP's outputs are not finite; the model's training has diverged");
  for (int64_t b = 0; b < y.size(0); ++b) (*found)->mlp.add(y.select(0, b));
}

void AttentionInspection::see(const Attention& attention, const Tensor& x) {
  auto found =
      std::find_if(layers_.begin(), layers_.end(), [&](const auto& l) { return l->attention == &attention; });
  if (found == layers_.end()) {
    Layer fresh{&attention};
    fresh.sums = {name_of(model_, attention), attention.config().kind, attention.config().causal};
    fresh.sums.heads.resize(size_t(attention.heads()));
    found = layers_.insert(layers_.end(), std::make_unique<Layer>(std::move(fresh)));
  }
  Layer& layer = **found;
  const uint64_t number = uint64_t(found - layers_.begin());
  const AttentionTensors t = attention.tensors(x);
  if (!std::isfinite(sum(t.output).item()) || !std::isfinite(sum(t.own_keys).item()))
    fail("inspect", layer.sums.name + ": keys or outputs are not finite; the model's training has diverged");

  const int64_t n = x.size(1);
  const double weight = double(n);
  for (int64_t b = 0; b < x.size(0); ++b) {
    const bool decompose = layer.samples < options_.decomposed;
    for (int64_t h = 0; h < attention.heads(); ++h) {
      const Head head{t, b, h, attention.config().causal, attention.traits().exponential};
      HeadMeasures one;
      measure_each(head, one);
      if (decompose)
        measure_decomposed(head,
                           options_.control.defined()
                               ? options_.control
                               : normal({n, t.values.size(3)}, 0, 1, uint64_t(h), streams::control.at(number))
                                     .to(DType::f64),
                           one);
      add_to(layer.sums.heads[size_t(h)], one, weight, decompose);
    }
    layer.output.add(t.output.select(0, b).to(cpu).to(DType::f64));
    if (!layer.sums.quiet) {
      const auto of_sample = [&](const Tensor& all) {
        return all.select(0, b).to(cpu).to(DType::f64).contiguous();
      };
      layer.sums.quiet = quiet_head(of_sample(t.mixed), of_sample(t.values), of_sample(t.weights),
                                    attention.config().causal);
    }
    layer.weight += weight;
    layer.decomposed_weight += decompose ? weight : 0;
    ++layer.samples;
  }
}

double OutputMeasures::outlier_count() const {
  return std::accumulate(outliers.begin(), outliers.end(), 0.0);
}

int64_t OutputMeasures::outlier_dimension() const {
  const auto most = std::max_element(outliers.begin(), outliers.end());
  return most == outliers.end() || *most == 0 ? -1 : most - outliers.begin();
}

std::vector<LayerMeasures> AttentionInspection::layers() const {
  std::vector<LayerMeasures> all;
  for (const auto& layer : layers_) {
    LayerMeasures m = layer->sums;
    m.output = layer->output.mean_of();
    if (layer->mlp.samples > 0) m.mlp = layer->mlp.mean_of();
    const double whole = layer->weight, part = layer->decomposed_weight > 0 ? layer->decomposed_weight : nan;
    const Tensor queries = layer->attention->query_weights(), keys = layer->attention->key_weights();
    for (size_t h = 0; h < m.heads.size(); ++h) {
      HeadMeasures& head = m.heads[h];
      for_each_number(head,
                      [&](const char*, double& x, bool of_decomposed) { x /= of_decomposed ? part : whole; });
      for_each_of_decomposed(head, HeadMeasures(head), [&](double& x, double) { x /= part; });
      const Tensor q = queries.select(0, int64_t(h)), k = keys.select(0, int64_t(h));
      head.w = qk_statistics(q, k);
      head.eigenvalues = qk_eigenvalues(q, k);
    }
    all.push_back(std::move(m));
  }
  return all;
}

std::vector<std::string> AttentionInspection::notes(const std::vector<LayerMeasures>& layers) {
  std::vector<std::string> lines;
  bool iterates = false, causal = false;
  for (const LayerMeasures& layer : layers) {
    causal |= layer.causal;
    if (!attention_kind(layer.kind).traits.exponential) {
      lines.push_back(layer.name + ": " + attention_kind(layer.kind).title() +
                      " weighs keys by no exponential; its kernel PCA is left out");
      continue;
    }
    if (std::isnan(layer.published_log()))
      lines.push_back(layer.name +
                      ": J_proj as published has no logarithm, its mean is negative or not a number");
    double residual = 0;
    for (size_t h = 0; h < layer.heads.size(); ++h) {
      const HeadMeasures& head = layer.heads[h];
      for_each_number(head, [&](const char* name, double x, bool) {
        const bool left_out = layer.causal && std::string(name) == "j_proj_exact";
        if (!std::isfinite(x) && !left_out)
          lines.push_back(fmt::format("{}, head {}: {} is {}", layer.name, h, name, x));
      });
      if (!head.pursuit.empty()) {
        const double r = head.pursuit.back().residual;
        if (std::isnan(r) || r > residual) residual = r;  // a NaN stays
      }
      iterates |= !head.pursuit.empty();
    }
    if (!(residual <= split_residual))
      lines.push_back(
          fmt::format("{}: the pursuit has not converged, |K - L - S| is {:.2g} of |K| after {} iterations",
                      layer.name, residual, layer.heads[0].pursuit.size()));
  }
  if (causal)
    lines.push_back("causal layers: every query has its own keys, so J_proj with exact values is left out");
  if (!iterates) lines.push_back("no layer iterates, so there are no L and S");
  return lines;
}

PursuitMaps pursuit_maps(const Module& model, const std::function<void()>& forward) {
  const NoGrad off;
  PursuitMaps maps;
  const auto norms = [](const Tensor& x) {  // [B, H, N, D]
    std::vector<float> out;
    for (const double v : mean(sqrt(sum(square(x.select(0, 0)), {2})), {0}).to_vector())
      out.push_back(float(v));
    return out;
  };
  const Observer<Attention> observer([&](const Attention& layer, const Tensor& x) {
    if (!maps.layer.empty() || !layer.traits().iterates) return;
    maps.layer = name_of(model, layer);
    for (const PursuitStep& step : layer.tensors(x.slice(0, 0, 1)).pursuit) {
      maps.low_rank.push_back(norms(step.low_rank));
      maps.sparse.push_back(norms(step.sparse));
    }
  });
  forward();
  return maps;
}

}  // namespace pursuit::nn
