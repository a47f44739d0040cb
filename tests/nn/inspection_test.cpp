#include "nn/inspection.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/files/safetensors.h"
#include "engine/ops.h"
#include "nn/fan.h"
#include "nn/init.h"
#include "nn/transformer_lm.h"
#include "nn/vit.h"
#include "tests/message_of.h"

using namespace pursuit;
using namespace pursuit::nn;

namespace {

// Both NaN, or as near as f64 allows after a division by small entries.
void check_near(const std::string& what, double got, double want) {
  CAPTURE(what);
  CHECK(std::isnan(got) == std::isnan(want));
  if (!std::isnan(want)) CHECK(std::abs(got - want) <= 1e-9 * std::max(1.0, std::abs(want)));
}

void check_near(const std::string& what, const std::vector<double>& got, const Tensor& want) {
  const std::vector<double> values = want.to_vector();
  REQUIRE(got.size() == values.size());
  REQUIRE(!values.empty());
  for (size_t i = 0; i < values.size(); ++i) check_near(what, got[i], values[i]);
}

KindOptions options_of(const std::string& text) {
  KindOptions options;
  const auto json = nlohmann::json::parse(text);
  for (const auto& [name, value] : json.items())
    options[name] = value.is_string()           ? OptionValue(value.get<std::string>())
                    : value.is_number_integer() ? OptionValue(value.get<int64_t>())
                                                : OptionValue(value.get<double>());
  return options;
}

void check_file(const std::string& path) {
  CAPTURE(path);
  TensorFile file = load_safetensors(path);
  const auto stored = [&](const std::string& name) { return file.tensors.at(name).to(DType::f64); };
  const Tensor x = stored("in.x");
  const bool causal = file.metadata.at("causal") == "1";
  const int64_t heads = stored("out.numbers").size(0);
  Attention attention(x.size(2), heads,
                      {.kind = file.metadata.at("kind"),
                       .options = options_of(file.metadata.at("options")),
                       .causal = causal},
                      x.size(1));
  for (const NamedTensor& p : attention.parameters())
    copy_values(p.tensor->detach(), stored("param." + p.name));

  // In two batches, so that the means are over both.
  AttentionInspection inspection(attention, {.control = stored("in.control")});
  for (int64_t b = 0; b < x.size(0); ++b) inspection.add([&] { attention(x.slice(0, b, b + 1)); });
  const std::vector<LayerMeasures> layers = inspection.layers();
  REQUIRE(layers.size() == 1);
  const LayerMeasures& layer = layers[0];
  check_near("layer", {layer.output.infinity_norm, layer.output.kurtosis}, stored("out.layer"));
  check_near("published log", {layer.published_log()}, stored("out.published_log"));
  for (int64_t h = 0; h < heads; ++h) {
    CAPTURE(h);
    const HeadMeasures& head = layer.heads[size_t(h)];
    const std::vector<double> numbers = stored("out.numbers").select(0, h).to_vector();
    size_t i = 0;
    for_each_number(
        head, [&](const char* name, double number, bool) { check_near(name, number, numbers.at(i++)); });
    CHECK(i == numbers.size());
    const auto of_head = [&](const std::string& name) { return stored("out." + name).select(0, h); };
    check_near("spectrum", head.spectrum, of_head("spectrum"));
    check_near("keys", head.keys, of_head("keys"));
    check_near("r and r'", {head.w.concentration(), head.w.concentration_of_square()}, of_head("qk"));
    std::vector<double> moduli;
    for (const auto& value : head.eigenvalues) moduli.push_back(std::abs(value));
    check_near("eigenvalues", moduli, of_head("moduli"));
    CHECK(file.tensors.contains("out.share") == !head.pursuit.empty());
    for (size_t t = 0; t < head.pursuit.size(); ++t) {
      const auto of_step = [&](const char* name) { return of_head(name).select(0, int64_t(t)); };
      check_near("L", head.pursuit[t].low_rank, of_step("low_rank"));
      check_near("S", head.pursuit[t].sparse, of_step("sparse"));
      check_near("share", {head.pursuit[t].share}, of_step("share"));
      check_near("residual", {head.pursuit[t].residual}, of_step("residual"));
    }
    CHECK(file.tensors.contains("out.scaled") == head.scaled.has_value());
    if (head.scaled)
      check_near("scaled",
                 {head.scaled->learned, head.scaled->analytic, head.scaled->distance, head.scaled->cosine},
                 of_head("scaled"));
  }
}

Tensor matrix(const std::vector<double>& values, int64_t columns) {
  return from_vector(values, {int64_t(values.size()) / columns, columns});
}

}  // namespace

TEST_CASE("inspection: every number agrees with NumPy's") {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(PURSUIT_INSPECTION_GOLDENS)) {
    check_file(entry.path().string());
    ++files;
  }
  CHECK(files == 12);
}

TEST_CASE("kernel PCA: a worked example") {
  const Tensor keys = matrix({0.3, -0.7, 1.1, 0.4, -0.9, 0.2, 0.5, 0.8, -0.2, -1.3}, 2);
  const KernelPca pca = kernel_pca(keys, 2);
  const auto near = [](const std::vector<double>& got, const std::vector<double>& want, double bar) {
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - want[i]) <= bar);
  };
  near(pca.eigenvalues, {0.07250148, 0.05078101, 0.00893941, 0.00544390, 0}, 6e-9);
  near(pca.coefficients.select(1, 0).to_vector(), {0.836135, -2.011896, 0.839849, -1.867260, 2.203172}, 6e-7);
  near(pca.coefficients.select(1, 1).to_vector(), {-1.256407, -1.098286, 3.736153, 0.307909, -1.689368},
       6e-7);
  near(pca.values.select(1, 0).to_vector(), {0.142596, -0.303058, 0.172900, -0.325541, 0.305717}, 6e-7);
  near(pca.values.select(1, 1).to_vector(), {-0.214270, -0.165438, 0.769165, 0.053681, -0.234421}, 6e-7);
  // Attention over these values is the query's projection.
  const Tensor query = matrix({0.6, -0.1}, 2),
               p = softmax(matmul(query, keys.transpose(0, 1)) / std::sqrt(2.0)), h = matmul(p, pca.values);
  near(h.to_vector(), {-0.04573024, -0.03002017}, 6e-9);
  near({projection_error(query, keys, h).query}, {0.0415417720}, 6e-11);
  // With all components nothing of the centred part is left, so no projection exceeds the query.
  CHECK(kernel_pca(keys, 5).values.size(1) == 4);
}

TEST_CASE("kernel PCA: coefficients that are eigenvectors pass the check, random ones do not") {
  const Tensor keys = normal({12, 4}, 0, 1, 3, 0).to(DType::f64), gram = centred_gram(keys);
  const KernelPca pca = kernel_pca(keys, 4);
  const EigenvectorCheck exact = eigenvector_check(gram, pca.coefficients),
                         random = eigenvector_check(gram, normal({12, 4}, 0, 1, 4, 0).to(DType::f64));
  CHECK(exact.relative < 1e-9);
  CHECK(exact.cosine == doctest::Approx(1));
  CHECK(random.relative > 0.1);
  CHECK(random.cosine < 0.95);
  // The values that the theory predicts imply the coefficients that they are made of.
  CHECK(eigenvector_check(gram, implied_coefficients(keys, pca.values)).relative < 1e-9);
  CHECK(linear_cka(pca.values, pca.values * -3.0) == doctest::Approx(1));
}

TEST_CASE("inspection: the layers of models, and what is said of them") {
  VisionTransformer vit({.image = 8,
                         .patch = 4,
                         .channels = 1,
                         .dim = 8,
                         .depth = 2,
                         .heads = 2,
                         .classes = 3,
                         .attention = {.kind = "rpc"}});
  initialise(vit, Init::timm, 0);
  const Tensor images = uniform({2, 1, 8, 8}, -1, 1, 0, 1);
  const Tensor before = vit(images);
  AttentionInspection inspection(vit, {.decomposed = 1});
  CHECK(inspection.layers().empty());
  Tensor seen;
  inspection.add([&] { seen = vit(images); });
  CHECK(seen.to_vector() == before.to_vector());
  const std::vector<LayerMeasures> layers = inspection.layers();
  REQUIRE(layers.size() == 2);
  CHECK(layers[0].name == "blocks.0");
  CHECK(layers[0].kind == "rpc");
  CHECK(layers[1].name == "blocks.1");
  CHECK(layers[1].kind == "symmetric");
  CHECK(layers[0].heads[0].pursuit.size() == 4);
  CHECK(layers[1].heads[0].pursuit.empty());
  const auto says = [](const std::vector<LayerMeasures>& of, const std::string& part) {
    for (const std::string& line : AttentionInspection::notes(of))
      if (line.find(part) != std::string::npos) return true;
    return false;
  };
  CHECK(says(layers, "blocks.0: the pursuit has not converged"));
  CHECK_FALSE(says(layers, "no layer iterates"));
  // NaN is larger than what follows and what went before.
  std::vector<LayerMeasures> unknown = layers;
  for (HeadMeasures& head : unknown[0].heads) head.pursuit.back().residual = 0;
  CHECK_FALSE(says(unknown, "the pursuit has not converged"));
  unknown[0].heads[0].pursuit.back().residual = std::nan("");
  CHECK(says(unknown, "blocks.0: the pursuit has not converged"));
  const PursuitMaps maps = pursuit_maps(vit, [&] { vit(images); });
  CHECK(maps.layer == "blocks.0");
  REQUIRE(maps.low_rank.size() == 4);
  CHECK(maps.sparse[3].size() == 5);

  LmConfig config;
  config.vocab = 5;
  config.context = 4;
  config.dim = config.hidden = 8;
  config.depth = 1;
  config.heads = 2;
  config.attention.kind = "linear";
  TransformerLm lm(config);
  initialise(lm, config.init, 0);
  AttentionInspection causal(lm);
  causal.add([&] { lm.features(from_vector(std::vector<int64_t>{1, 2, 3, 4}, {1, 4})); });
  const std::vector<LayerMeasures> linear = causal.layers();
  REQUIRE(linear.size() == 1);
  CHECK(std::isnan(linear[0].heads[0].trace));
  CHECK(linear[0].heads[0].entropy > 0);
  CHECK(says(linear, "blocks.0: linear attention weighs keys by no exponential"));
  CHECK(says(linear, "no layer iterates"));

  for (const NamedTensor& p : vit.parameters())
    if (p.name == "blocks.1.attn.qkv.weight") copy_values(p.tensor->detach(), full(p.tensor->shape(), NAN));
  AttentionInspection broken(vit);
  CHECK(message_of([&] { broken.add([&] { vit(images); }); }).find("blocks.1") != std::string::npos);
}

TEST_CASE("inspection: outliers of six standard deviations are counted by dimension") {
  const NoGrad off;
  Attention layer(64, 2, {});
  for (const NamedTensor& p : layer.parameters())
    *p.tensor = normal(p.tensor->shape(), 0, p.name.starts_with("proj") ? 0 : 0.3, 2, 2);
  layer.proj.bias.data<float>()[41] = 5;  // every token's output: 7.9 deviations from the mean
  AttentionInspection inspection(layer);
  inspection.add([&] { layer(normal({3, 10, 64}, 0, 1, 1, 1)); });
  const std::vector<LayerMeasures> layers = inspection.layers();
  REQUIRE(layers.size() == 1);
  CHECK(layers[0].output.outlier_count() == 10);
  CHECK(layers[0].output.outlier_dimension() == 41);
  REQUIRE(layers[0].output.outliers.size() == 64);
  CHECK(layers[0].output.outliers[41] == 10);
  CHECK(OutputMeasures{}.outlier_dimension() == -1);
  CHECK(!layers[0].mlp);
}

TEST_CASE("inspection: the quietest head, what it attends to and what it finds there") {
  const NoGrad off;
  for (const auto& layers : {std::pair{"softmax", false}, {"softmax", true}, {"clipped", false}}) {
    const char* const kind = layers.first;
    const bool causal = layers.second;
    CAPTURE(kind);
    CAPTURE(causal);
    const bool clips = kind == std::string("clipped");
    Attention layer(12, 3, {.kind = kind, .options = {{"gamma", -0.1}}, .causal = causal});
    for (const NamedTensor& p : layer.parameters()) *p.tensor = normal(p.tensor->shape(), 0, 0.6, 2, 2);
    const Tensor x = normal({2, 6, 12}, 0, 1, 1, 1);
    AttentionInspection inspection(layer);
    inspection.add([&] { layer(x); });
    REQUIRE(inspection.layers().size() == 1);
    REQUIRE(inspection.layers()[0].quiet);
    const QuietHead q = *inspection.layers()[0].quiet;
    const AttentionTensors t = layer.tensors(x);
    const auto at = [](const Tensor& of, int64_t h, int64_t i, int64_t j) {  // of the first sample
      return of.select(0, 0).select(0, h).select(0, i).select(0, j).item();
    };
    const auto norm_of = [&](const Tensor& of, int64_t h, int64_t i) {
      double sum = 0;
      for (int64_t d = 0; d < 4; ++d) sum += at(of, h, i, d) * at(of, h, i, d);
      return std::sqrt(sum);
    };
    double least = INFINITY;
    int64_t quietest = -1;
    for (int64_t h = 0; h < 3; ++h) {
      double u = 0, v = 0;
      for (int64_t i = 0; i < 6; ++i) {
        u += norm_of(t.mixed, h, i) * norm_of(t.mixed, h, i);
        v += norm_of(t.values, h, i) * norm_of(t.values, h, i);
      }
      if (const double ratio = std::sqrt(u / v); ratio < least) least = ratio, quietest = h;
    }
    CHECK(q.head == quietest);
    CHECK(q.update == doctest::Approx(least).epsilon(1e-5));
    REQUIRE(q.attention.size() == 6);
    for (int64_t j = 0; j < 6; ++j) {
      double sum = 0;
      for (int64_t i = 0; i < 6; ++i) {
        const double p = at(t.probabilities, q.head, i, j);
        sum += clips ? std::clamp(1.13 * p - 0.1, 0.0, 1.0) : p;
      }
      CHECK(q.attention[size_t(j)] == doctest::Approx(sum / double(causal ? 6 - j : 6)).epsilon(1e-5));
      CHECK(q.values[size_t(j)] == doctest::Approx(norm_of(t.values, q.head, j)).epsilon(1e-5));
      CHECK(q.outputs[size_t(j)] == doctest::Approx(norm_of(t.mixed, q.head, j)).epsilon(1e-5));
    }
  }
}

TEST_CASE("inspection: outputs that are all equal have a kurtosis of 0") {
  const NoGrad off;
  Attention layer(12, 3, {});
  for (const NamedTensor& p : layer.parameters()) *p.tensor = zeros(p.tensor->shape());
  AttentionInspection inspection(layer);
  inspection.add([&] { layer(normal({2, 6, 12}, 0, 1, 1, 1)); });
  REQUIRE(inspection.layers().size() == 1);
  CHECK(inspection.layers()[0].output.kurtosis == 0);
}

TEST_CASE("inspection: an MLP of a block without attention layer is no other block's") {
  const NoGrad off;
  FanConfig config{.image = 12, .patch = 4};  // its class token has MLPs, in blocks of their own
  config.dim = 16;
  config.depth = config.heads = 2;
  config.classes = 3;
  Fan fan(config);
  initialise(fan, Init::timm, 1);
  AttentionInspection inspection(fan);
  inspection.add([&] { fan(normal({2, 3, 12, 12}, 0, 1, 1, 1)); });
  REQUIRE(inspection.layers().size() == 2);
  for (const LayerMeasures& layer : inspection.layers()) CHECK(!layer.mlp);
}

TEST_CASE("inspection: the MLP's output is measured without the residual, beside its attention") {
  const NoGrad off;
  VitConfig config;
  config.image = 8;
  config.patch = 4;
  config.dim = 64;
  config.depth = 2;
  config.heads = 2;
  config.classes = 3;
  VisionTransformer vit(config);
  initialise(vit, Init::timm, 1);
  Tensor* bias = nullptr;
  for (const NamedTensor& p : vit.parameters()) {
    *p.tensor = p.tensor->detach();
    if (p.name == "blocks.1.mlp.fc2.bias") bias = p.tensor;
  }
  REQUIRE(bias);
  bias->data<float>()[7] = -50;
  AttentionInspection inspection(vit);
  for (uint64_t i = 1; i <= 2; ++i) inspection.add([&] { vit(normal({2, 3, 8, 8}, 0, 1, 1, i)); });
  const std::vector<LayerMeasures> layers = inspection.layers();
  REQUIRE(layers.size() == 2);
  REQUIRE((layers[0].mlp && layers[1].mlp));
  // The stream that the MLP adds to would move the entry of every token by another number.
  CHECK(layers[1].mlp->outliers[7] == 5);  // a class token and four patches
  CHECK(layers[1].mlp->outlier_count() == 5);
  CHECK(layers[1].mlp->infinity_norm == doctest::Approx(50).epsilon(0.01));
  // One of 64 numbers is -50 and the others nearly 0: m4 / m2^2 = (1 - p)^4 p + p^4 (1 - p) over (p (1 - p))^2.
  const double p = 1.0 / 64;
  const double q = 1 - p;
  CHECK(layers[1].mlp->kurtosis ==
        doctest::Approx((q * q * q * q * p + p * p * p * p * q) / (p * q * p * q)).epsilon(0.01));
  CHECK(layers[0].mlp->infinity_norm < 1);
}
