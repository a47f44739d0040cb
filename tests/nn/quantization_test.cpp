#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <numeric>
#include <set>

#include "engine/cpu/rows.h"
#include "engine/files/safetensors.h"
#include "engine/ops/quantized.h"
#include "nn/attention/attention.h"
#include "nn/inference.h"
#include "nn/quantization/convert.h"
#include "nn/transformer_lm.h"
#include "nn/vit.h"
#include "tests/differences.h"
#include "tests/message_of.h"
#include "tests/needs.h"

using namespace pursuit;
using namespace pursuit::nn;

namespace {

const std::filesystem::path goldens = PURSUIT_QUANTIZATION_GOLDENS;

std::span<const float> numbers(const Tensor& t) { return {t.data<float>(), size_t(t.numel())}; }

double mean_difference(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.to_vector(), y = b.to_vector();
  REQUIRE(!x.empty());
  REQUIRE(x.size() == y.size());
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += std::abs(x[i] - y[i]);
  return sum / double(x.size());
}

VitConfig vit_config() {
  VitConfig c;
  c.image = 8, c.patch = 4, c.dim = 16, c.depth = 2, c.heads = 2, c.classes = 5, c.mlp_ratio = 1.5;
  c.attention.kind = "clipped";
  return c;
}

LmConfig lm_config() {
  LmConfig c;
  c.vocab = 19, c.context = 7, c.dim = 16, c.depth = 2, c.heads = 2, c.hidden = 24;
  c.attention.kind = "gated";
  c.positions = Positions::learned;
  c.scale_embedding = false;
  return c;
}

template <class M, class C> std::unique_ptr<M> quantized(C config, const QuantizationConfig& q = {}) {
  config.quantization = q;
  auto model = std::make_unique<M>(config);
  for (const NamedTensor& p : model->parameters()) *p.tensor = p.tensor->detach();
  return model;
}

void randomise(Module& model) {
  uint64_t stream = 0;
  for (const NamedTensor& p : model.parameters()) {
    const bool gain = p.name.find("norm") != std::string::npos && p.name.ends_with("weight");
    *p.tensor = normal(p.tensor->shape(), gain ? 1 : 0, gain ? 0.1 : 0.3, 3, ++stream);
  }
}

AffineGrid coded_grid(const Module& model, const std::string& name) {
  for (const NamedTensor& b : model.buffers())
    if (b.name == name) {
      const std::vector<double> grid = b.tensor->to_vector();
      return {float(grid[0]), int32_t(grid[1]), (1 << model.quantization()->config.activation_bits) - 1};
    }
  fail("test", "there is no " + name);
}

// A vision transformer, and the quantised one of its weights whose ranges are those of the images.
struct VitPair {
  std::unique_ptr<VisionTransformer> plain, coded;
};
VitPair vit_pair(const std::string& kind, const Tensor& images) {
  VitConfig config = vit_config();
  config.attention.kind = kind;
  VitPair pair{std::make_unique<VisionTransformer>(config), quantized<VisionTransformer>(config)};
  randomise(*pair.plain);
  quantize_weights(*pair.plain, *pair.coded, {});
  calibrate(*pair.coded, 2, [&](int64_t) { (*pair.coded)(images); });
  return pair;
}

// What a model gives: logits of images, or log p of the word after the ids.
Tensor output_of(const VisionTransformer& model, const Tensor& images) { return model(images); }
Tensor output_of(const TransformerLm& model, const Tensor& ids) {
  const int64_t words = model.config().vocab, batch = ids.size(0), length = ids.size(1);
  const Tensor y =
      empty({batch, length, words});  // one word at a time: labels that are each of the vocabulary
  for (int64_t w = 0; w < words; ++w)
    copy_values(y.select(2, w), model.log_prob_of(ids, full({batch, length}, double(w), DType::i64)));
  return y;
}
void calibrate_on(const VisionTransformer& model, const Tensor& images) { model(images); }
void calibrate_on(const TransformerLm& model, const Tensor& ids) { model.features(ids); }

template <class M, class C> void check_model(const C& config, const std::string& name) {
  CAPTURE(name);
  const NoGrad off;
  const TensorFile file = load_safetensors((goldens / (name + ".safetensors")).string());
  M plain(config);
  for (const NamedTensor& p : plain.parameters()) *p.tensor = file.tensors.at("param." + p.name);
  const auto model = quantized<M>(config);
  const bool per_tensor = file.metadata.at("granularity") == "tensor";
  quantize_weights(plain, *model, {.granularity = per_tensor ? Granularity::tensor : Granularity::channel});
  calibrate(*model, 3, [&](int64_t i) { calibrate_on(*model, file.tensors.at("in." + std::to_string(i))); });
  check_quantized(*model);

  int64_t grids = 0;
  for (const NamedTensor& b : model->buffers())
    if (b.name.ends_with(".grid")) {
      ++grids;
      CAPTURE(b.name);
      const Tensor want = file.tensors.at("grid." + b.name.substr(0, b.name.size() - 5));
      // An activation that falls on the other side of a tie moves a range by a part of a step.
      CHECK(std::abs(b.tensor->to_vector()[0] / want.to_vector()[0] - 1) < 5e-3);
      CHECK(std::abs(b.tensor->to_vector()[1] - want.to_vector()[1]) <= 1);
    }
  const auto stored = std::count_if(file.tensors.begin(), file.tensors.end(),
                                    [](const auto& t) { return t.first.starts_with("grid."); });
  CHECK(grids == stored);

  const Tensor x = file.tensors.at("in.3"), want = file.tensors.at("out"), unrounded = output_of(plain, x);
  for (const QuantizedRun run : {QuantizedRun::simulated, QuantizedRun::integer}) {
    CAPTURE(int(run));
    model->quantization()->run = run;
    const Tensor got = output_of(*model, x);
    // Most numbers agree as f32 does; ties make some differ by as much as a step causes.
    CHECK(largest_difference(got, want) < 0.02 * largest_magnitude(want));
    CHECK(mean_difference(got, want) < 0.2 * mean_difference(unrounded, want));
  }
}

}  // namespace

TEST_CASE("quantization: weights by NumPy, 8 and 4 bits, by tensor and by channel") {
  const TensorFile file = load_safetensors((goldens / "quantisers.safetensors").string());
  const Tensor w = file.tensors.at("w");
  for (const int64_t bits : {8, 4})
    for (const auto& range : choices_of(WeightRange()))
      for (const auto& granularity : choices_of(Granularity())) {
        const std::string what =
            "." + std::to_string(bits) + "." + range.name + "." + std::string(granularity.name);
        CAPTURE(what);
        const CodedWeight coded = coded_weight(w, {bits, range.value, granularity.value});
        CHECK(coded.codes.dtype() == DType::i8);
        CHECK(largest_difference(coded.codes, file.tensors.at("codes" + what)) == 0);
        CHECK(largest_difference(coded.scale, file.tensors.at("scale" + what)) == 0);
      }
  const Tensor rounded = rounded_weight(file.tensors.at("gains"), {});
  CHECK(largest_difference(rounded, file.tensors.at("rounded")) == 0);
}

TEST_CASE("quantization: running ranges by NumPy, and the closed form of their mean") {
  const TensorFile file = load_safetensors((goldens / "quantisers.safetensors").string());
  for (const auto estimator : {RangeEstimator::running, RangeEstimator::percentile}) {
    const std::string name = choice_name(estimator);
    CAPTURE(name);
    RunningRange range;
    std::vector<ValueRange> batches;
    for (int i = 0; i < 5; ++i) {
      batches.push_back(batch_range(numbers(file.tensors.at("x." + std::to_string(i))), {estimator, 99}, 8));
      range.add(batches.back());
    }
    double low = std::pow(0.9, 4) * batches[0].low, high = std::pow(0.9, 4) * batches[0].high;
    for (size_t i = 1; i < 5; ++i) {
      low += 0.1 * std::pow(0.9, 4 - double(i)) * batches[i].low;
      high += 0.1 * std::pow(0.9, 4 - double(i)) * batches[i].high;
    }
    CHECK(std::abs(range.value().low - low) < 1e-6);
    CHECK(std::abs(range.value().high - high) < 1e-6);
    const std::vector<double> want = file.tensors.at("range." + name).to_vector();
    CHECK(std::abs(range.value().low - want[0]) < 1e-6);
    CHECK(std::abs(range.value().high - want[1]) < 1e-6);
    const AffineGrid grid = asymmetric_grid(range.value(), 8);
    CHECK(std::abs(grid.step / file.tensors.at("grid." + name).to_vector()[0] - 1) < 1e-6);
    CHECK(grid.zero == file.tensors.at("grid." + name).to_vector()[1]);
    CHECK(largest_difference(fake_quantize(file.tensors.at("x.4"), grid), file.tensors.at("y." + name)) <
          2 * grid.step);
  }
}

TEST_CASE("quantization: the mse estimator is as good as the best pair of ends on a raster") {
  const TensorFile file = load_safetensors((goldens / "quantisers.safetensors").string());
  const Tensor x = file.tensors.at("x.4");
  const auto error = [&](const ValueRange& range) {
    const std::vector<double> a = x.to_vector(), b = fake_quantize(x, asymmetric_grid(range, 4)).to_vector();
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
  };
  const double own = error(batch_range(numbers(x), {RangeEstimator::mse}, 4)),
               least = file.tensors.at("least_error").to_vector()[0];
  CHECK(own < 1.05 * least);
  CHECK(own < 0.9 * error(batch_range(numbers(x), {}, 4)));
}

TEST_CASE("quantization: the mse estimator sees channels of outliers, whatever the width") {
  for (const int64_t width : {192, 128, 6}) {  // six numbers stand for one: 6 * 2^17
    CAPTURE(width);
    const int64_t rows = 6 * (1 << 17) / width;
    const Tensor x = normal({rows, width}, 0, 1, 7, 7);
    for (int64_t r = 0; r < rows; ++r) x.data<float>()[r * width + 1] *= 50;
    const auto error = [&](RangeEstimator estimator) {
      const AffineGrid grid = asymmetric_grid(batch_range(numbers(x), {estimator}, 8), 8);
      return mean_difference(x, fake_quantize(x, grid));
    };
    CHECK(error(RangeEstimator::mse) < 1.1 * error(RangeEstimator::running));
  }
}

TEST_CASE("quantization: zero is exact, and in range the error is at most half a step") {
  for (const ValueRange range : {ValueRange{-1.3, 2.9}, {0.5, 3}, {-4, -1}, {0, 0}, {-1e-3, 700}}) {
    const AffineGrid grid = asymmetric_grid(range, 8);
    const double low = grid.step * double(-grid.zero), high = grid.step * double(255 - grid.zero);
    CHECK(fake_quantize(zeros({1}), grid).item() == 0);
    const Tensor x = uniform({4000}, low, high, 1, 1);
    CHECK(largest_difference(x, fake_quantize(x, grid)) <= 0.50003 * double(grid.step));
  }
  CHECK(message_of([] { batch_range({}, {}, 8); }).find("no activation") != std::string::npos);
  const float bad[] = {1, NAN};
  CHECK(message_of([&] { batch_range(bad, {}, 8); }).find("not finite") != std::string::npos);
}

TEST_CASE("quantization: the outlier law, decibels of 8 bits over a stretched range") {
  const Tensor x = normal({200000}, 0, 1, 11, 1);
  const std::vector<double> values = x.to_vector();
  double power = 0;
  for (const double v : values) power += v * v;
  const std::pair<double, double> law[] = {{6, 38.6},   {20, 31.2}, {40, 26.0},
                                           {100, 18.5}, {340, 8.2}, {735, 2.1}};
  for (const auto& [most, decibels] : law) {
    ValueRange range = batch_range(numbers(x), {}, 8);
    range.high = most;
    const AffineGrid grid = asymmetric_grid(range, 8);
    const std::vector<double> rounded = fake_quantize(x, grid).to_vector();
    double noise = 0;
    for (size_t i = 0; i < values.size(); ++i) noise += std::pow(values[i] - rounded[i], 2);
    const double largest_output = most;
    CAPTURE(largest_output);
    CHECK(std::abs(10 * std::log10(power / noise) - decibels) < 0.5);
    const double uniform_noise = double(grid.step) * double(grid.step) / 12;
    if (most <= 340) CHECK(std::abs(noise / double(values.size()) / uniform_noise - 1) < 0.02);
  }
}

TEST_CASE("quantization: int8_linear is the simulated product, few rows and many, kept and not") {
  const NoGrad off;
  for (const int64_t rows : {1, 3, 5, 97, 400})
    for (const bool kept : {false, true}) {
      CAPTURE(rows);
      CAPTURE(kept);
      Linear layer(37, 51);
      randomise(layer);
      const auto how = std::make_shared<Quantization>();
      Linear coded(37, 51);
      coded.quantize(how);
      quantize_weights(layer, coded, {});
      const Inference inference(kept ? static_cast<const Module&>(coded) : layer);
      const AffineGrid grid = asymmetric_grid({-2, 3}, 8);
      const Tensor x = normal({rows, 37}, 0, 1, 5, 5);
      const std::vector<NamedTensor> buffers = coded.buffers();
      REQUIRE(buffers.size() == 2);
      const Tensor codes = *buffers[0].tensor, scale = *buffers[1].tensor;
      const Tensor want = linear(fake_quantize(x, grid), dequantize(codes, scale), coded.bias);
      // Sums of 37 terms of about 1 in f32.
      CHECK(largest_difference(int8_linear(x, {grid, codes, scale, coded.bias}), want) < 1e-5);
      CHECK(largest_difference(int8_linear(x, {grid, codes, scale}), want - coded.bias) < 1e-5);
      CHECK(largest_magnitude(want) > 0.5);
    }
}

TEST_CASE("quantization: several layers in one operator are the layers one by one") {
  const NoGrad off;
  const auto layer = [](int64_t in, int64_t out, double low, double high, uint64_t seed) {
    const CodedWeight w = coded_weight(normal({out, in}, 0, 1, seed, 1), {});
    return Int8Layer{asymmetric_grid({low, high}, 8), w.codes, w.scale, normal({out}, 0, 1, seed, 2)};
  };
  const AffineGrid grid = asymmetric_grid({-20, 30}, 8);
  const Int8Layer first = layer(37, 150, -2, 3, 1), second = layer(150, 21, -1, 9, 2),
                  head = layer(21, 2100, -20, 30, 3);
  for (const int64_t rows : {0, 1, 3, 5, 97, 400}) {
    CAPTURE(rows);
    const Tensor x = normal({rows, 37}, 0, 1, 5, 5), linear = int8_linear(x, first);
    CHECK(int8_linear(x, first, grid).to_vector() == fake_quantize(linear, grid).to_vector());
    for (const Activation f : {Activation::gelu, Activation::relu}) {
      const Tensor active = relu(linear);
      if (f == Activation::gelu)
        pursuit::rows<float>().gelu(linear.data<float>(), active.data<float>(), linear.numel());
      const Tensor y = int8_mlp(x, first, f, second, grid);
      CHECK(y.to_vector() == fake_quantize(int8_linear(active, second), grid).to_vector());
      std::vector<int64_t> labels;
      for (int64_t i = 0; i < rows; ++i) labels.push_back(i % 5 == 4 ? -1 : 997 * i % 2100);
      const Tensor log_p = int8_log_prob(y, head, from_vector(labels, {rows})),
                   all = log_softmax(int8_linear(y, head));
      std::vector<double> want(size_t(rows), 0.0);
      for (int64_t i = 0; i < rows; ++i)
        if (const int64_t label = labels[size_t(i)]; label >= 0)
          want[size_t(i)] = all.slice(0, i, i + 1).to_vector()[size_t(label)];
      if (rows > 0)  // two roundings of f32
        CHECK(largest_difference(log_p, from_vector(want, {rows}).to(DType::f32)) <
              2.4e-7 * largest_magnitude(all));
    }
  }
  const Tensor x = normal({3, 37}, 0, 1, 5, 5);
  const auto refused = [](auto&& f) { return message_of(f); };
  CHECK(refused([&] { int8_mlp(x, second, Activation::gelu, first, grid); }).find("as many inputs") !=
        std::string::npos);
  CHECK(refused([&] { int8_linear(x, second); }).find("need [..., 150]") != std::string::npos);
  CHECK(refused([&] { int8_log_prob(x, head, zeros({3}, DType::i64)); }).find("[rows, in]") !=
        std::string::npos);
}

TEST_CASE("quantization: a vision transformer against NumPy's simulation") {
  for (const char* name : {"vit_tensor", "vit_channel"}) check_model<VisionTransformer>(vit_config(), name);
}

TEST_CASE("quantization: a language model against NumPy's simulation") {
  for (const char* name : {"lm_tensor", "lm_channel"}) check_model<TransformerLm>(lm_config(), name);
}

TEST_CASE("quantization: integers and the simulation agree for every kind of attention") {
  const NoGrad off;
  for (const std::string& kind : attention_kinds()) {
    CAPTURE(kind);
    const Tensor images = normal({6, 3, 8, 8}, 0, 1, 2, 2);
    const auto [plain, model] = vit_pair(kind, images);
    const Tensor integers = (*model)(images);
    model->quantization()->run = QuantizedRun::simulated;
    const Tensor simulated = (*model)(images), exact = (*plain)(images);
    // Up to ties, which the rounding of f32 breaks in another way.
    CHECK(mean_difference(integers, simulated) < 0.1 * mean_difference(integers, exact));
    CHECK(largest_difference(integers, exact) < 0.3 * largest_magnitude(exact));
    const Tensor of_class = model->class_attention(images);
    CHECK(of_class.shape() == Shape{6, 2, 5});
  }
}

TEST_CASE("quantization: a rounded layer's tensors are what it computes, for every kind of attention") {
  const NoGrad off;
  const int64_t dim = 16, heads = 2, tokens = 5;
  const Tensor x = normal({6, tokens, dim}, 0, 1, 2, 2);
  for (const std::string& kind : attention_kinds()) {
    CAPTURE(kind);
    Attention plain(dim, heads, {.kind = kind}, tokens), coded(dim, heads, {.kind = kind}, tokens);
    randomise(plain);
    const auto how = std::make_shared<Quantization>();
    how->config.activation_bits = 4;  // coarse, so that what is not rounded stands out
    Quantizer of_x;
    for (Module* m : {static_cast<Module*>(&coded), static_cast<Module*>(&of_x)}) m->quantize(how);
    quantize_weights(plain, coded, {});
    how->run = QuantizedRun::calibrating;
    coded.quantized(of_x(x), of_x);
    for (const QuantizedRun run : {QuantizedRun::integer, QuantizedRun::simulated}) {
      CAPTURE(int(run));
      how->run = run;
      const Tensor want = coded.quantized(of_x(x), of_x);
      const AttentionTensors t = coded.tensors(of_x(x));
      CHECK(mean_difference(t.output, want) < 0.1 * mean_difference(plain(x), want));
      CHECK(fake_quantize(t.output, coded_grid(coded, "output.grid")).to_vector() == t.output.to_vector());
      CHECK(fake_quantize(t.own_keys, coded_grid(coded, "keys.grid")).to_vector() == t.own_keys.to_vector());
    }
  }
}

TEST_CASE("quantization: a calibration that fails leaves the model as it ran before") {
  const NoGrad off;
  const Tensor images = normal({2, 3, 8, 8}, 0, 1, 2, 2);
  const VitPair pair = vit_pair("softmax", images);
  CHECK(message_of([&] { calibrate(*pair.coded, 1, [](int64_t) { fail("test", "no batch"); }); }) ==
        "[test] no batch");
  CHECK(pair.coded->quantization()->run == QuantizedRun::integer);
}

TEST_CASE("quantization: a language model generates from its cache what it gives for the whole text") {
  const NoGrad off;
  for (const bool pre_norm : {false, true})
    for (const bool tied : {false, true})
      for (const bool float_head : {false, true})
        for (const bool clusters : {false, true}) {
          CAPTURE(pre_norm);
          CAPTURE(tied);
          CAPTURE(float_head);
          CAPTURE(clusters);
          LmConfig config = lm_config();
          config.pre_norm = pre_norm;
          config.tied = tied;
          config.output_bias = true;
          if (clusters) config.cutoffs = {6, 11};
          TransformerLm plain(config);
          randomise(plain);
          const auto model = quantized<TransformerLm>(config, {.float_head = float_head});
          quantize_weights(plain, *model, {});
          const Tensor ids = from_vector<int64_t>({3, 1, 18, 7, 0, 5, 5}, {1, 7});
          calibrate(*model, 1, [&](int64_t) { model->features(ids); });
          LmCache cache;
          model->next_logits(ids.slice(1, 0, 3), cache);
          model->next_logits(ids.slice(1, 3, 4), cache);
          const Tensor step = model->next_logits(ids.slice(1, 4, 7), cache), whole = model->next_logits(ids);
          CHECK(largest_difference(step, whole) < 0.02 * largest_magnitude(whole));
          const Tensor labels = from_vector<int64_t>({1, 18, 7, 0, -1, 5, 11}, {1, 7});
          const Tensor log_p = model->log_prob_of(ids, labels), all = output_of(*model, ids);
          for (int64_t t = 0; t < 7; ++t) {
            const double label = labels.to_vector()[size_t(t)];
            const double want = label < 0 ? 0 : all.to_vector()[size_t(t * 19) + size_t(label)];
            CHECK(std::abs(log_p.to_vector()[size_t(t)] - want) < 1e-5);
          }
          CHECK(mean_difference(all, output_of(plain, ids)) < 0.1);
          const bool codes = model->embed_weight.dtype() == DType::i8;
          CHECK(codes == !(tied && float_head));
        }
}

TEST_CASE("quantization: damaged scales and grids, and what has no quantised form, are one clear line") {
  const NoGrad off;
  VisionTransformer plain(vit_config());
  randomise(plain);
  const auto model = quantized<VisionTransformer>(vit_config());
  quantize_weights(plain, *model, {});
  const Tensor images = normal({2, 3, 8, 8}, 0, 1, 2, 2);
  CHECK(message_of([&] { (*model)(images); }).find("not calibrated") != std::string::npos);
  calibrate(*model, 1, [&](int64_t) { (*model)(images); });
  check_quantized(*model);
  int64_t damaged = 0;
  for (const NamedTensor& b : model->buffers()) {
    if (b.tensor->dtype() != DType::f32) continue;
    for (const float bad : {0.0f, -1.0f, NAN, INFINITY}) {
      const Tensor before = b.tensor->to(DType::f64);
      b.tensor->data<float>()[0] = bad;
      CHECK(message_of([&] { check_quantized(*model); }).find(b.name) != std::string::npos);
      copy_values(*b.tensor, before);
      ++damaged;
    }
    if (!b.name.ends_with(".grid")) continue;
    for (const float bad : {-1.0f, 256.0f, 0.5f, NAN}) {
      const Tensor before = b.tensor->to(DType::f64);
      b.tensor->data<float>()[1] = bad;
      CHECK(message_of([&] { check_quantized(*model); }).find(b.name) != std::string::npos);
      copy_values(*b.tensor, before);
    }
  }
  CHECK(damaged > 50);
  check_quantized(*model);
  CHECK(message_of([&] { (*model)(images.to(DType::bf16)); }).find("need f32") != std::string::npos);
  Tensor broken = images.to(DType::f64).to(DType::f32);
  broken.data<float>()[5] = NAN;
  CHECK(message_of([&] { (*model)(broken); }).find("NaN") != std::string::npos);
  plain.cls_token.data<float>()[0] = NAN;
  CHECK(message_of([&] { quantize_weights(plain, *model, {}); }).find("cls_token") != std::string::npos);
}

TEST_CASE("quantization: gradients are refused") {
  VisionTransformer plain(vit_config());
  randomise(plain);
  const auto model = quantized<VisionTransformer>(vit_config());
  Tensor images = normal({2, 3, 8, 8}, 0, 1, 2, 2);
  {
    const NoGrad off;
    quantize_weights(plain, *model, {});
    calibrate(*model, 1, [&](int64_t) { (*model)(images); });
  }
  images.requires_grad();
  CHECK(message_of([&] { (*model)(images); }).find("no gradients") != std::string::npos);
}

namespace {

Tensor on_gpu(const Tensor& x) { return x.defined() ? x.to(cuda_device()) : x; }
Int8Layer on_gpu(const Int8Layer& layer) {
  return {layer.grid, on_gpu(layer.codes), on_gpu(layer.scale), on_gpu(layer.bias)};
}
// Infinity if they have different NaNs.
double gpu_difference(const Tensor& gpu, const Tensor& host) {
  REQUIRE(gpu.device().is_cuda());
  REQUIRE(gpu.shape() == host.shape());
  const std::vector<double> x = gpu.to(cpu).to_vector(), y = host.to_vector();
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i]) != std::isnan(y[i])) return INFINITY;
    worst = std::max(worst, std::isnan(x[i]) ? 0 : std::abs(x[i] - y[i]));
  }
  return worst;
}

}  // namespace

GPU_TEST_CASE("quantization on the GPU: rounding and tables have the CPU's bits") {
  const NoGrad off;
  const AffineGrid grid{0.25f, 100, 255};
  std::vector<float> values = {0, -0.125f, 0.125f, 0.375f, -25, -26, 38.75f, 39, NAN, INFINITY, -INFINITY};
  for (const float v : normal({500}, 0, 12, 3, 4).to_vector()) values.push_back(v);
  for (const size_t n : {size_t(0), size_t(1), size_t(11), values.size()}) {
    const Tensor x =
        from_vector(std::vector<float>(values.begin(), values.begin() + int64_t(n)), {int64_t(n)});
    CHECK(gpu_difference(fake_quantize(on_gpu(x), grid), fake_quantize(x, grid)) == 0);
  }
  const CodedWeight table = coded_weight(normal({37, 50}, 0, 1, 5, 1), {});
  const Tensor codes = on_gpu(table.codes), scale = on_gpu(table.scale), x = normal({37, 50}, 0, 1, 5, 9);
  CHECK(gpu_difference(dequantize(codes, scale), dequantize(table.codes, table.scale)) == 0);
  CHECK(gpu_difference(fake_quantize_rows(on_gpu(x), scale.reshape({37, 1}), 4),
                       fake_quantize_rows(x, table.scale.reshape({37, 1}), 4)) == 0);
  const Tensor ids = from_vector<int64_t>({36, 0, 5, 5}, {2, 2});
  CHECK(gpu_difference(dequantized_embedding(on_gpu(ids), codes, scale),
                       dequantized_embedding(ids, table.codes, table.scale)) == 0);
  const std::vector<double> unknown =
      dequantized_embedding(on_gpu(from_vector<int64_t>({-1, 3, 37}, {3})), codes, scale).to(cpu).to_vector();
  for (size_t i = 0; i < 150; ++i) CHECK(std::isnan(unknown[i]) == (i / 50 != 1));
  CHECK(message_of([&] { dequantized_embedding(ids, codes, scale); }).find("one device") !=
        std::string::npos);
}

GPU_TEST_CASE("quantization on the GPU: int8 layers are those of the CPU, at odd sizes") {
  const NoGrad off;
  const auto layer = [](int64_t in, int64_t out, uint64_t seed) {
    const CodedWeight w = coded_weight(normal({out, in}, 0, 1, seed, 1), {});
    return Int8Layer{asymmetric_grid({-2, 3}, 8), w.codes, w.scale, normal({out}, 0, 1, seed, 2)};
  };
  for (const auto& size : {std::pair<int64_t, int64_t>{1, 1}, {37, 51}, {48, 96}, {130, 16}})
    for (const int64_t rows : {0, 1, 3, 97}) {
      const int64_t in = size.first, out = size.second;
      CAPTURE(in);
      CAPTURE(out);
      CAPTURE(rows);
      Int8Layer exact = layer(in, out, 1);
      Tensor x = normal({rows, in}, 0, 2, 5, 5);
      // Sums of integers, which f32 holds without rounding.
      exact.grid.step = 1, exact.scale = full({out}, 1), exact.bias = {};
      CHECK(gpu_difference(int8_linear(on_gpu(x), on_gpu(exact)), int8_linear(x, exact)) == 0);
      const Int8Layer given = layer(in, out, 2);
      const AffineGrid coarse{0.5f, 60, 127};
      CHECK(gpu_difference(int8_linear(on_gpu(x), on_gpu(given)), int8_linear(x, given)) < 1e-5);
      if (rows == 0) continue;
      const Tensor rounded = int8_linear(on_gpu(x), on_gpu(given), coarse);
      CHECK(gpu_difference(fake_quantize(rounded, coarse), rounded.to(cpu)) == 0);
      // A NaN has no code: its row is NaN, and the others are as they were.
      const Tensor before = int8_linear(on_gpu(x), on_gpu(given)).to(cpu);
      x.data<float>()[in * (rows - 1)] = NAN;
      const std::vector<double> after = int8_linear(on_gpu(x), on_gpu(given)).to(cpu).to_vector(),
                                was = before.to_vector();
      int64_t wrong = 0;
      for (size_t i = 0; i < after.size(); ++i)
        wrong += int64_t(i) / out == rows - 1 ? !std::isnan(after[i]) : after[i] != was[i];
      CHECK(wrong == 0);
    }
  const Int8Layer first = layer(37, 150, 1), second = layer(150, 21, 2), head = layer(21, 210, 3);
  const AffineGrid grid{1e-3f, 128, 255};
  const Tensor x = normal({9, 37}, 0, 1, 5, 5);
  for (const Activation f : {Activation::gelu, Activation::relu}) {
    // What falls on the other side of a tie differs by a step of the hidden grid times a weight.
    const Tensor want = int8_mlp(x, first, f, second, grid);
    CHECK(gpu_difference(int8_mlp(on_gpu(x), on_gpu(first), f, on_gpu(second), grid), want) <
          0.05 * largest_magnitude(want));
  }
  const Tensor y = normal({9, 21}, 0, 1, 5, 6),
               labels = from_vector<int64_t>({0, 209, -1, 5, 17, -1, 100, 64, 63}, {9});
  CHECK(gpu_difference(int8_log_prob(on_gpu(y), on_gpu(head), on_gpu(labels)),
                       int8_log_prob(y, head, labels)) < 1e-4);
  const Tensor beyond = from_vector<int64_t>({210}, {1});
  CHECK(message_of([&] { int8_log_prob(y.slice(0, 0, 1), head, beyond); }).find("at most 209") !=
        std::string::npos);
  CHECK(std::isnan(
      int8_log_prob(on_gpu(y.slice(0, 0, 1)), on_gpu(head), on_gpu(beyond)).to(cpu).to_vector()[0]));
  CHECK(message_of([&] { int8_linear(x, on_gpu(first)); }).find("one device") != std::string::npos);
}

GPU_TEST_CASE("quantization on the GPU: attention") {
  const NoGrad off;
  // Projections of whole numbers: scores are exact, in whatever order they are summed.
  const AttentionGrids grids{
      {1, 128, 255}, {1, 128, 255}, {1, 128, 255}, {0.5f, 128, 255}, {1 / 255.0f, 0, 255}};
  for (const int64_t parts : {2, 3})
    for (const bool causal : {false, true})
      for (const double gamma : {0.0, -0.03})
        for (const auto& size : {std::pair<int64_t, int64_t>{1, 4}, {33, 16}, {70, 8}}) {
          const int64_t n = size.first, d = size.second;
          CAPTURE(parts);
          CAPTURE(causal);
          CAPTURE(gamma);
          CAPTURE(n);
          const Tensor qkv = uniform({2, n, parts, 3, d}, -4, 4, 1, 7);
          const AttentionOptions options{.scale = 0.0625, .causal = causal, .gamma = gamma};
          const Tensor want = quantized_attention(qkv, options, grids);
          CHECK(gpu_difference(quantized_attention(on_gpu(qkv), options, grids), want) < 1e-4);
          CHECK(largest_magnitude(want) > 0.1);
        }
}

TEST_CASE("quantised: the probabilities of clipped attention are those before the clip") {
  LmConfig config = lm_config();
  config.attention.kind = "clipped";
  config.attention.options["gamma"] = -0.3;
  TransformerLm plain(config);
  randomise(plain);
  const auto model = quantized<TransformerLm>(config);
  quantize_weights(plain, *model, {});
  const Tensor ids = from_vector<int64_t>({3, 1, 18, 7, 0, 5, 5}, {1, 7});
  calibrate(*model, 1, [&](int64_t) { model->features(ids); });
  const Tensor x = normal({1, 7, config.dim}, 0, 1, 1, 1);
  const std::vector<double> p = model->attention(0).probabilities(x).to_vector();
  REQUIRE(p.size() == size_t(config.heads) * 7 * 7);
  for (size_t i = 0; i < p.size(); i += 7)
    CHECK(std::accumulate(p.begin() + ptrdiff_t(i), p.begin() + ptrdiff_t(i) + 7, 0.0) ==
          doctest::Approx(1).epsilon(1e-5));
}

GPU_TEST_CASE("quantization on the GPU: models, integers and simulated") {
  const NoGrad off;
  const auto compare = [](auto& model, const auto& output) {
    std::vector<Tensor> want;
    for (const QuantizedRun run : {QuantizedRun::simulated, QuantizedRun::integer}) {
      model.quantization()->run = run;
      want.push_back(output(cpu));
    }
    model.to(cuda_device());
    check_quantized(model);
    for (const QuantizedRun run : {QuantizedRun::simulated, QuantizedRun::integer}) {
      CAPTURE(int(run));
      model.quantization()->run = run;
      const Tensor host = want[run == QuantizedRun::integer];
      // Up to ties, as between integers and the simulation.
      CHECK(largest_difference(output(cuda_device()).to(cpu), host) < 0.02 * largest_magnitude(host));
    }
  };
  for (const std::string kind : {"clipped", "symmetric", "gated", "rpc"}) {
    CAPTURE(kind);
    const Tensor images = normal({6, 3, 8, 8}, 0, 1, 2, 2);
    const VitPair pair = vit_pair(kind, images);
    compare(*pair.coded, [&](Device device) { return (*pair.coded)(images.to(device)); });
  }
  for (const bool float_head : {false, true}) {
    CAPTURE(float_head);
    TransformerLm plain(lm_config());
    randomise(plain);
    const auto model = quantized<TransformerLm>(lm_config(), {.float_head = float_head});
    quantize_weights(plain, *model, {});
    const Tensor ids = from_vector<int64_t>({3, 1, 18, 7, 0, 5, 5}, {1, 7}),
                 labels = from_vector<int64_t>({1, 18, 7, 0, -1, 5, 11}, {1, 7});
    calibrate(*model, 1, [&](int64_t) { model->features(ids); });
    compare(*model, [&](Device device) { return model->log_prob_of(ids.to(device), labels.to(device)); });
  }
}
