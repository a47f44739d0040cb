#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>

#include "cuda/runtime.h"
#include "engine/base/error.h"
#include "engine/ops.h"
#include "engine/solve/gradcheck.h"
#include "tests/message_of.h"
#include "tests/needs.h"

using namespace pursuit;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

void check_close(const Tensor& got, const std::vector<double>& want, double bar = 1e-6) {
  const std::vector<double> values = got.to_vector();
  REQUIRE(values.size() == want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    CAPTURE(i);
    if (std::isinf(want[i]))
      CHECK(values[i] == want[i]);
    else
      CHECK(std::abs(values[i] - want[i]) <= bar);
  }
}

// Every floating type of the CPU, and of the GPU where there is one.
struct Place {
  DType type;
  Device device;
  Tensor put(const Tensor& x) const { return x.to(type).to(device); }
};
std::vector<Place> places() {
  std::vector<Place> all = {{DType::f32, cpu}, {DType::f64, cpu}, {DType::bf16, cpu}};
  if (cuda::available()) all.insert(all.end(), {{DType::f32, cuda_device()}, {DType::bf16, cuda_device()}});
  return all;
}

}  // namespace

TEST_CASE("softmax, log_softmax and clipped_softmax of known rows") {
  // exp of log 1, log 2, log 5.
  const std::vector<double> row = {0, std::log(2), std::log(5)};
  for (const Place& place : places()) {
    const double bar = place.type == DType::bf16 ? 5e-3 : 1e-6;
    const Tensor x = place.put(from_vector(row, {1, 3}));
    check_close(softmax(x), {0.125, 0.25, 0.625}, bar);
    check_close(log_softmax(x), {std::log(0.125), std::log(0.25), std::log(0.625)}, 3 * bar);
    check_close(clipped_softmax(x, -0.2, 1.8), {0.05, 0.3, 1}, 2 * bar);
    check_close(softmax(x + 1000.0), {0.125, 0.25, 0.625}, place.type == DType::f64 ? bar : 1);
  }
  CHECK_THROWS_AS(clipped_softmax(ones({2, 2}), 0.1, 1), Error);
  CHECK_THROWS_AS(softmax(ones({})), Error);
}

TEST_CASE("masked entries get nothing, and a row without entries is zero with a zero gradient") {
  for (const Place& place : places()) {
    Tensor x = place.put(from_vector<double>({0, -inf, 0, -inf, -inf, -inf}, {2, 3}));
    x.requires_grad();
    const std::vector<std::function<Tensor(const Tensor&)>> both = {
        softmax, [](const Tensor& t) { return clipped_softmax(t, -0.5, 1.5); }};
    for (const auto& f : both) {
      x.zero_grad();
      const Tensor y = f(x);
      check_close(y, {0.5, 0, 0.5, 0, 0, 0});
      y.backward(place.put(from_vector<double>({1, 2, 3, 4, 5, 6}, {2, 3})));
      const std::vector<double> g = x.grad().to_vector();
      CHECK(g[0] < 0);
      CHECK(g[0] == -g[2]);
      for (const size_t i : {1, 3, 4, 5}) CHECK(g[i] == 0);
    }
    x.zero_grad();
    const Tensor y = log_softmax(x);
    check_close(y.select(0, 0), {-std::log(2), -inf, -std::log(2)}, 3e-3);
    check_close(y.select(0, 1), {-inf, -inf, -inf});
    y.backward(place.put(ones({2, 3})));
    check_close(x.grad().select(0, 1), {0, 0, 0});
  }
}

TEST_CASE("cross_entropy of known rows") {
  const std::vector<double> rows = {0, std::log(2), std::log(5), std::log(3), 0, 0};
  // p = [1 2 5] / 8 and [3 1 1] / 5
  const Tensor x = from_vector(rows, {2, 3});
  const Tensor y = from_vector<int32_t>({2, 0}, {2});
  const double plain = -(std::log(0.625) + std::log(0.6)) / 2;
  CHECK(cross_entropy(x, y).item() == doctest::Approx(plain));
  CHECK(cross_entropy(x, y).ndim() == 0);
  CHECK(cross_entropy(x, y.to(DType::i64)).item() == doctest::Approx(plain));
  CHECK(cross_entropy(x.to(DType::f32), y).item() == doctest::Approx(plain));
  const Tensor rough = cross_entropy(x.to(DType::bf16), y);
  CHECK(rough.dtype() == DType::f32);
  CHECK(rough.item() == doctest::Approx(plain).epsilon(0.01));
  const double even0 = -(std::log(0.125) + std::log(0.25) + std::log(0.625)) / 3;
  const double even1 = -(std::log(0.6) + 2 * std::log(0.2)) / 3;
  CHECK(cross_entropy(x, y, 0.1).item() == doctest::Approx(0.9 * plain + 0.1 * (even0 + even1) / 2));

  for (const Place& place : places()) {
    if (place.type == DType::bf16) continue;
    Tensor z = place.put(x).detach();
    z.requires_grad();
    (cross_entropy(z, y.to(place.device)) * 2.0).backward();
    check_close(z.grad(), {0.125, 0.25, -0.375, -0.4, 0.2, 0.2});
    // The second row is ignored: the mean is over the first.
    z.zero_grad();
    const Tensor ignoring = cross_entropy(z, from_vector<int32_t>({1, 255}, {2}, place.device), 0, 255);
    CHECK(ignoring.item() == doctest::Approx(-std::log(0.25)));
    ignoring.backward();
    check_close(z.grad(), {0.125, -0.75, 0.625, 0, 0, 0});
    // All rows are ignored: 0, where a mean over nothing would be NaN.
    z.zero_grad();
    const Tensor none = cross_entropy(z, from_vector<int32_t>({-1, -1}, {2}, place.device));
    CHECK(none.item() == 0);
    none.backward();
    check_close(z.grad(), {0, 0, 0, 0, 0, 0});
  }
  CHECK(cross_entropy(zeros({0, 3}), zeros({0}, DType::i32)).item() == 0);
}

TEST_CASE("cross_entropy refuses what it cannot mean") {
  const Tensor x = zeros({3, 4});
  const std::string m = message_of([&] { cross_entropy(x, from_vector<int32_t>({0, 4, 1}, {3})); });
  CHECK(m.find("row 1") != std::string::npos);
  CHECK(m.find("is 4") != std::string::npos);
  CHECK_THROWS_AS(cross_entropy(x, from_vector<int64_t>({0, int64_t(1) << 32, 1}, {3})), Error);
  CHECK_THROWS_AS(cross_entropy(x, from_vector<int32_t>({0, -2, 1}, {3})), Error);
  CHECK_THROWS_AS(cross_entropy(x, from_vector<int32_t>({0, 1}, {2})), Error);
  CHECK_THROWS_AS(cross_entropy(x, zeros({3})), Error);
  CHECK_THROWS_AS(cross_entropy(x, zeros({3}, DType::i32), 1.5), Error);
  CHECK_THROWS_AS(soft_cross_entropy(x, zeros({4, 3})), Error);
}

GPU_TEST_CASE(
    "on the GPU, where a kernel cannot throw, a wrong label makes the loss and the row's gradient NaN") {
  const Tensor x = zeros({3, 4});
  for (const int64_t label : {int64_t(4), int64_t(-2), int64_t(1) << 32}) {
    Tensor z = x.to(cuda_device()).detach();
    z.requires_grad();
    const Tensor loss = cross_entropy(z, from_vector<int64_t>({0, label, 1}, {3}, cuda_device()));
    CHECK(std::isnan(loss.item()));
    loss.backward();
    CHECK(std::isnan(z.grad().select(0, 1).to_vector()[0]));
  }
}

GPU_TEST_CASE("on the GPU, where a kernel cannot throw, a wrong id makes the token NaN and has no gradient") {
  Tensor table = from_vector<float>({0, 1, 10, 11, 20, 21}, {3, 2}, cuda_device());
  table.requires_grad();
  const Tensor tokens = embedding(from_vector<int32_t>({2, 3, -1, 2}, {4}, cuda_device()), table);
  for (const int i : {1, 2}) CHECK(std::isnan(tokens.select(0, i).to_vector()[0]));
  check_close(tokens.select(0, 3), {20, 21});
  tokens.backward(ones({4, 2}).to(cuda_device()));
  check_close(table.grad(), {0, 0, 0, 0, 2, 2});
}

TEST_CASE("soft_cross_entropy generalises cross_entropy and has both gradients") {
  const Tensor z = normal({5, 7}, 0, 2, 1, 0, DType::f64);
  const Tensor labels = from_vector<int32_t>({3, 0, 6, 6, 2}, {5});
  std::vector<double> one_hot(35);
  for (size_t i = 0; i < 5; ++i) one_hot[i * 7 + size_t(labels.to_vector()[i])] = 1;
  CHECK(soft_cross_entropy(z, from_vector(one_hot, {5, 7})).item() ==
        doctest::Approx(cross_entropy(z, labels).item()));
  const auto report =
      check_gradient([](const std::vector<Tensor>& in) { return soft_cross_entropy(in[0], in[1]); },
                     {z, softmax(normal({5, 7}, 0, 1, 1, 1, DType::f64))});
  INFO(report.message);
  CHECK(report.ok);
}

GPU_TEST_CASE("on the GPU, more rows than a launch has teams of threads") {
  const auto same = [](const std::vector<Tensor>& in,
                       const std::function<Tensor(const std::vector<Tensor>&)>& f) {
    std::vector<std::vector<double>> all[2];
    for (const Device device : {cpu, cuda_device()}) {
      auto& found = all[device.is_cuda()];
      std::vector<Tensor> leaves;
      for (const Tensor& t : in) {
        leaves.push_back(t.to(device).detach());
        if (is_floating(t.dtype())) leaves.back().requires_grad();
      }
      const Tensor y = f(leaves);
      y.backward(ones(y.shape()).to(device));
      found.push_back(y.to_vector());
      for (const Tensor& t : leaves)
        if (t.needs_grad()) found.push_back(t.grad().to_vector());
    }
    for (size_t i = 0; i < all[0].size(); ++i)
      check_close(from_vector(all[1][i], {int64_t(all[1][i].size())}), all[0][i], 2e-4);
  };
  std::vector<int32_t> labels(9000);
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = int32_t(i * i % 4) - 1;
  same({uniform({9000, 3}, -3, 3, 1, 1), from_vector(labels, {9000})},
       [](const std::vector<Tensor>& in) { return cross_entropy(in[0], in[1], 0.1); });
  same({uniform({3000, 4}, -1, 1, 1, 2), uniform({4}, -1, 1, 1, 3), uniform({4}, -1, 1, 1, 4)},
       [](const std::vector<Tensor>& in) { return layer_norm(in[0], in[1], in[2], 1e-2); });
}

TEST_CASE("gradients of the losses, of patchify, embedding and upsampling by central differences") {
  const auto passes = [](const std::function<Tensor(const std::vector<Tensor>&)>& f,
                         const std::vector<Tensor>& in) {
    const auto report = check_gradient(f, in);
    INFO(report.message);
    CHECK(report.ok);
  };
  const auto draw = [](const Shape& s, uint64_t stream) { return normal(s, 0, 1, 4, stream, DType::f64); };
  const Tensor y = from_vector<int32_t>({3, -1, 0, 4}, {4});
  passes([&](const auto& in) { return cross_entropy(in[0], y, 0.1); }, {draw({4, 5}, 0)});
  passes([](const auto& in) { return log_softmax(in[0]); }, {draw({2, 3, 5}, 0)});
  passes([](const auto& in) { return softmax(in[0].transpose(0, 1)); }, {draw({4, 5}, 0)});
  passes([](const auto& in) { return clipped_softmax(in[0], -0.2, 1.1); }, {draw({4, 5}, 0)});
  passes([](const auto& in) { return patchify(in[0], in[1], in[2]); },
         {draw({2, 2, 4, 6}, 0), draw({3, 2, 2, 2}, 1), draw({3}, 2)});
  const Tensor ids = from_vector<int64_t>({1, 1, 0, 4}, {2, 2});
  passes([&](const auto& in) { return embedding(ids, in[0]); }, {draw({5, 3}, 0)});
  passes([](const auto& in) { return upsample_bilinear(in[0], 7, 5); }, {draw({2, 2, 3, 4}, 0)});
  passes([](const auto& in) { return dropout(in[0], 0.4, 3, 5); }, {draw({6, 5}, 0)});
  passes([](const auto& in) { return drop_path(in[0], 0.4, 3, 5); }, {draw({6, 5}, 0)});
}

TEST_CASE("patchify, embedding and upsample_bilinear of small input by hand") {
  // One channel, 2 x 4, patches of 2: weights pick the upper left and add the lower right tenfold.
  const Tensor image = from_vector<float>({1, 2, 3, 4, 5, 6, 7, 8}, {1, 1, 2, 4});
  const Tensor weight = from_vector<float>({1, 0, 0, 10}, {1, 1, 2, 2});
  check_close(patchify(image, weight, full({1}, 0.5)), {61.5, 83.5});
  CHECK_THROWS_AS(patchify(zeros({1, 1, 3, 4}), weight, zeros({1})), Error);
  CHECK_THROWS_AS(patchify(image, zeros({1, 2, 2, 2}), zeros({1})), Error);

  const Tensor table = from_vector<float>({0, 1, 10, 11, 20, 21}, {3, 2});
  check_close(embedding(from_vector<int32_t>({2, 0}, {2}), table), {20, 21, 0, 1});
  const std::string m = message_of([&] { embedding(from_vector<int32_t>({2, 3}, {2}), table); });
  CHECK(m.find("id 1 is 3") != std::string::npos);
  CHECK_THROWS_AS(embedding(from_vector<int32_t>({-1}, {1}), table), Error);

  // Half-pixel centres: 2 to 4 columns gives weights 0, 1/4, 3/4, 1.
  check_close(upsample_bilinear(from_vector<float>({0, 4}, {1, 1, 1, 2}), 1, 4), {0, 1, 3, 4});
  CHECK_THROWS_AS(upsample_bilinear(zeros({1, 1, 2, 2}), 0, 3), Error);
}

TEST_CASE("argmax takes the first of equals and shows NaN") {
  check_close(argmax(from_vector<float>({1, 3, 3, -1, -2, -1}, {2, 3})), {1, 0});
  check_close(argmax(from_vector<double>({1, NAN, 3, NAN, 5, -inf}, {2, 3})), {1, 0});
  CHECK(argmax(zeros({4, 2, 3}).transpose(0, 1)).shape() == Shape{2, 4});
  CHECK(argmax(zeros({4, 3})).dtype() == DType::i64);
  CHECK_THROWS_AS(argmax(zeros({4, 0})), Error);

  for (const Place& place : places()) {
    CHECK(argmax(place.put(zeros({0, 3}))).numel() == 0);
    // Rows of one to many threads, their greatest number first, last and in between, beside equals.
    for (const int64_t cols : {1, 5, 40, 512, 513, 1024, 1032, 4104}) {
      std::vector<double> rows(size_t(4 * cols), -3), want;
      for (int64_t i = 0; i < 4; ++i) {
        const int64_t at = i * (cols - 1) / 3;
        rows[size_t(i * cols + cols - 1)] = -0.5;
        rows[size_t(i * cols + at)] = i == 2 ? NAN : -0.5;
        want.push_back(double(at));
      }
      check_close(argmax(place.put(from_vector(rows, {4, cols}))), want);
    }
  }
}

TEST_CASE("dropout keeps what it should, scaled, and the same again") {
  const Tensor x = ones({1000, 20});
  const Tensor y = dropout(x, 0.25, 7, 3);
  int64_t kept = 0;
  for (const double v : y.to_vector()) {
    CHECK((v == 0 || v == doctest::Approx(1 / 0.75)));
    kept += v != 0;
  }
  CHECK(std::abs(double(kept) / 20000 - 0.75) < 0.015);
  check_close(dropout(x, 0.25, 7, 3), y.to_vector(), 0);
  CHECK(sum(abs(dropout(x, 0.25, 7, 4) - y)).item() > 100);
  check_close(dropout(x.transpose(0, 1), 0.25, 7, 3).reshape({1000, 20}), y.to_vector(), 0);
  CHECK(sum(dropout(x, 1, 7, 3)).item() == 0);
  CHECK(sum(dropout(x, 0, 7, 3)).item() == 20000);
  CHECK_THROWS_AS(dropout(x, 1.1, 7, 3), Error);
  CHECK_THROWS_AS(dropout(x, NAN, 7, 3), Error);

  const std::vector<double> rows = sum(drop_path(x, 0.25, 7, 3), {1}).to_vector();
  int64_t samples = 0;
  for (const double v : rows) {
    CHECK((v == 0 || v == doctest::Approx(20 / 0.75)));
    samples += v != 0;
  }
  CHECK(std::abs(double(samples) / 1000 - 0.75) < 0.06);
}
