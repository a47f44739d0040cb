#include "engine/core/tape.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "cuda/runtime.h"
#include "engine/ops.h"
#include "engine/solve/gradcheck.h"
#include "tests/differences.h"
#include "tests/needs.h"

using namespace pursuit;

namespace {

using Values = std::vector<double>;

Tensor leaf(const std::vector<double>& values) {
  Tensor t = from_vector(values, {int64_t(values.size())});
  return t.requires_grad();
}

}  // namespace

TEST_CASE("tape: gradients of a small expression") {
  Tensor x = leaf({1, 2, 3});
  Tensor y = leaf({4, 5, 6});
  sum(x * y + square(x)).backward();
  CHECK(x.grad().to_vector() == Values{6, 9, 12});
  CHECK(y.grad().to_vector() == Values{1, 2, 3});
}

TEST_CASE("tape: a second backward adds, zero_grad starts anew") {
  Tensor x = leaf({1, 2});
  CHECK(!x.grad().defined());
  sum(square(x)).backward();
  sum(square(x)).backward();
  CHECK(x.grad().to_vector() == Values{4, 8});
  x.zero_grad();
  CHECK(!x.grad().defined());
  sum(square(x)).backward();
  CHECK(x.grad().to_vector() == Values{2, 4});
}

TEST_CASE("tape: a gradient collects in the buffer it was given") {
  Tensor x = leaf({1, 2});
  const Tensor home = full({2}, NAN, DType::f64);
  x.bind_grad(home);
  sum(square(x)).backward();
  CHECK(home.to_vector() == Values{2, 4});
  sum(square(x)).backward();
  CHECK(home.to_vector() == Values{4, 8});
  x.zero_grad();
  sum(x).backward();
  CHECK(home.to_vector() == Values{1, 1});
  CHECK_THROWS_AS(x.bind_grad(zeros({3}, DType::f64)), Error);
}

TEST_CASE("tape: a leaf's copy takes its place, and gradients of both add up in the leaf") {
  for (const bool bound : {false, true}) {
    Tensor x = from_vector<float>({1, 2}, {2}).requires_grad();
    const Tensor copy = from_vector<float>({3, 4}, {2}).to(DType::bf16), home = zeros({2});
    if (bound) x.bind_grad(home);
    x.bind_copy(copy);
    CHECK(x.to(DType::bf16).to_vector() == Values{3, 4});
    CHECK(x.to(DType::f64).to_vector() == Values{1, 2});
    sum(square(x.to(DType::bf16))).backward();
    CHECK(x.grad().to_vector() == Values{6, 8});
    // 1/128 more than 6 is no bf16 number: the sum is in f32.
    x.zero_grad();
    (sum(square(x.to(DType::bf16))).to(DType::f32) + sum(x * 0.0078125)).backward();
    sum(x).backward();
    CHECK(x.grad().to_vector() == Values{7.0078125, 9.0078125});
    if (bound) CHECK(home.to_vector() == Values{7.0078125, 9.0078125});
    CHECK_THROWS_AS(x.bind_copy(zeros({3}, DType::bf16)), Error);
    CHECK_THROWS_AS(copy.detach().bind_copy(copy), Error);
  }
}

TEST_CASE("tape: branches that meet again add up, once each") {
  Tensor x = leaf({3});
  const Tensor a = x * 2.0, b = square(a), c = a * b;  // a feeds b and c: c = 8 x^3
  sum(c + b + a).backward();                           // 8 x^3 + 4 x^2 + 2 x
  CHECK(x.grad().to_vector() == Values{24 * 9 + 8 * 3 + 2});

  // 2^40 paths through 40 diamonds, one visit a node.
  Tensor z = leaf({1});
  Tensor y = z;
  for (int i = 0; i < 40; ++i) y = y + y;
  sum(y).backward();
  CHECK(z.grad().item() == 0x1p40);
}

TEST_CASE("tape: gradients that add up leave what others hold of them alone") {
  // add hands its gradient on to both inputs as it is, reshape a view of it, expand one that overlaps itself.
  Tensor a = leaf({1, 2, 3, 4}), b = leaf({5, 6, 7, 8});
  const Tensor c = a * 2, d = b * 3;
  const Tensor seed = from_vector(Values{1, 10, 100, 1000}, {2, 2});
  const Tensor y =
      (c + d).reshape({2, 2}) + (c * d).reshape({2, 2}) + sum(c).reshape({1, 1}) + c.reshape({2, 2});
  y.backward(seed);
  CHECK(seed.to_vector() == Values{1, 10, 100, 1000});
  // dy/dc = 2 + d, and 1 of the sum for every entry; dy/dd = 1 + c.
  Values want_a, want_b;
  for (int i = 0; i < 4; ++i) {
    const double g = std::pow(10, i), total = 1111;
    want_a.push_back(2 * (g * (2 + 3 * (5 + i)) + total));
    want_b.push_back(3 * g * (1 + 2 * (1 + i)));
  }
  CHECK(a.grad().to_vector() == want_a);
  CHECK(b.grad().to_vector() == want_b);
}

TEST_CASE("tape: layer_norm adds to what others have given for its input's gradient, whoever comes first") {
  std::vector<Device> devices = {cpu};
  if (cuda::available()) devices.push_back(cuda_device());
  for (const Device device : devices)
    for (const int64_t cols : {5, 32, 1040}) {
      CAPTURE(cols);
      const auto drawn = [&](uint64_t stream) { return uniform({6, cols}, -1, 1, 7, stream).to(device); };
      const Tensor weight = drawn(1).select(0, 0), bias = drawn(2).select(0, 0), c = drawn(3), d = drawn(4);
      const auto gradient = [&](const std::function<Tensor(const Tensor&)>& f) {
        Tensor leaf = drawn(5);
        leaf.requires_grad();
        f(leaf * 1.0).backward(c);
        return leaf.grad();
      };
      const auto norm = [&](const Tensor& x) { return layer_norm(x, weight, bias, 1e-6); };
      const auto near = [](const Tensor& got, const Tensor& want) {
        return largest_difference(got, want) < 1e-5;
      };
      const Tensor alone = gradient(norm), beside = gradient([&](const Tensor&x) { return x * d; });
      CHECK(largest_magnitude(alone) > 0.1);
      CHECK(near(gradient([&](const Tensor& x) { return norm(x) + x * d; }), alone + beside));
      CHECK(near(gradient([&](const Tensor& x) { return x * d + norm(x); }), alone + beside));
      CHECK(near(gradient([&](const Tensor& x) { return norm(x) + norm(x) + x * d; }), alone * 2 + beside));
      // The gradient of the sum is what both terms are given, in one memory.
      CHECK(near(gradient([&](const Tensor& x) { return x + norm(x); }), alone + c));
      CHECK(near(gradient([&](const Tensor& x) { return norm(x) + x; }), alone + c));
      const Tensor before = c * 1.0;
      gradient([&](const Tensor& x) { return norm(x) + x; });
      CHECK(largest_difference(c, before) == 0);
    }
}

TEST_CASE("tape: a chain of 100000 nodes runs and is freed without recursion") {
  Tensor x = leaf({1});
  {
    Tensor y = x;
    for (int i = 0; i < 100000; ++i) y = y * 1.0;
    sum(y).backward();
    CHECK(x.grad().item() == 1);
  }
  {
    Tensor never_run = x;
    for (int i = 0; i < 100000; ++i) never_run = never_run + never_run;
  }
  CHECK(x.grad().item() == 1);
}

TEST_CASE("tape: nothing is recorded without need or without leave") {
  Tensor x = leaf({1, 2});
  CHECK(!square(from_vector<double>({1}, {1})).needs_grad());
  CHECK(square(x).needs_grad());
  CHECK(!square(x.detach()).needs_grad());
  CHECK(grad_enabled());
  {
    NoGrad off;
    CHECK(!grad_enabled());
    CHECK(!square(x).needs_grad());
    { NoGrad inner; }
    CHECK(!grad_enabled());
  }
  CHECK(grad_enabled());
  const Tensor y = square(x) * x.detach();
  sum(y).backward();
  CHECK(x.grad().to_vector() == Values{2, 8});
}

TEST_CASE("tape: errors") {
  Tensor x = leaf({1, 2});
  const Tensor y = sum(square(x));
  y.backward();
  CHECK_THROWS_WITH_AS(y.backward(), doctest::Contains("run already"), Error);
  CHECK_THROWS_WITH_AS(square(x).backward(), doctest::Contains("not a scalar"), Error);
  CHECK_THROWS_WITH_AS(from_vector<double>({1}, {1}).backward(), doctest::Contains("not on the tape"), Error);
  CHECK_THROWS_WITH_AS(square(x).backward(zeros({3}, DType::f64)), doctest::Contains("seed"), Error);
  Tensor z = square(x);
  CHECK_THROWS_WITH_AS(z.requires_grad(), doctest::Contains("square"), Error);
  Tensor home = leaf({1, 2, 3, 4}).reshape({2, 2}).detach();
  CHECK_THROWS_WITH_AS(zeros({2, 2}, DType::f64).bind_grad(home.transpose(0, 1)),
                       doctest::Contains("contiguous"), Error);
  CHECK_THROWS_WITH_AS(linear(zeros({4, 0}), zeros({3, 0})), doctest::Contains("in at least 1"), Error);
  CHECK_THROWS_WITH_AS(ones({2}, DType::i32) < 16777216.5, doctest::Contains("need a number of its type"),
                       Error);
  Tensor ids = arange(3);
  CHECK_THROWS_AS(ids.requires_grad(), Error);
}

TEST_CASE("f32 beside bf16: binary operators give f32, gradients come back in each input's type") {
  const std::vector<float> fine = {1.0001f, -2.0003f, 3.0007f}, coarse = {0.5f, 2, -4};
  Tensor a = from_vector(fine, {3}), b = from_vector(coarse, {3}).to(DType::bf16);
  a.requires_grad();
  b.requires_grad();
  // The results of f32 for the same numbers, in either order of operands.
  const auto same_as_f32 = [&](const std::function<Tensor(const Tensor&, const Tensor&)>& f) {
    Tensor wide = b.detach().to(DType::f32), narrow_first = f(b, a), narrow_last = f(a, b);
    Tensor x = a.detach();
    x.requires_grad();
    wide.requires_grad();
    CHECK(narrow_first.dtype() == DType::f32);
    CHECK(narrow_last.dtype() == DType::f32);
    CHECK(narrow_first.to_vector() == f(wide, x).to_vector());
    const Tensor plain = f(x, wide);
    CHECK(narrow_last.to_vector() == plain.to_vector());
    a.zero_grad();
    b.zero_grad();
    sum(narrow_last).backward();
    sum(plain).backward();
    CHECK(a.grad().dtype() == DType::f32);
    CHECK(b.grad().dtype() == DType::bf16);
    CHECK(a.grad().to_vector() == x.grad().to_vector());
    CHECK(b.grad().to_vector() == wide.grad().to(DType::bf16).to_vector());
  };
  same_as_f32(std::plus<Tensor>());
  same_as_f32(std::minus<Tensor>());
  same_as_f32(std::multiplies<Tensor>());
  same_as_f32(std::divides<Tensor>());
  for (const DType other : {DType::f64, DType::i32, DType::i64, DType::u8}) {
    CHECK_THROWS_WITH_AS(a.detach() + zeros({3}, other), doctest::Contains("to()"), Error);
    CHECK_THROWS_WITH_AS(zeros({3}, other) * b.detach(), doctest::Contains("to()"), Error);
  }
}

TEST_CASE("f32 beside bf16: a residual passes layers of bf16 unrounded, and so does its gradient") {
  const Tensor x = uniform({3, 4}, -1, 1, 1, 1, DType::bf16);
  const auto none = [](const Shape& shape) { return zeros(shape, DType::bf16); };
  Tensor residual = uniform({3, 4}, -1, 1, 1, 2);
  residual.requires_grad();
  const Tensor seed = uniform({3, 4}, -1, 1, 1, 3);
  for (const Tensor& y : {linear(x, none({4, 4}), none({4}), residual),
                          mlp(x, none({9, 4}), none({9}), none({4, 9}), none({4}), residual)}) {
    CHECK(y.dtype() == DType::f32);
    CHECK(y.to_vector() == residual.to_vector());
    residual.zero_grad();
    y.backward(seed);
    CHECK(residual.grad().to_vector() == seed.to_vector());
  }
  const Tensor w = zeros({4, 4}), f64 = zeros({3, 4}, DType::f64);
  CHECK_THROWS_AS(linear(w, w, {}, none({4, 4})), Error);
  CHECK_THROWS_AS(linear(x, none({4, 4}), {}, f64), Error);
  CHECK_THROWS_AS(layer_norm(x, zeros({4}, DType::f64), zeros({4}, DType::f64), 1e-6), Error);
  CHECK_THROWS_AS(layer_norm(w, none({4}), none({4}), 1e-6), Error);
}

GPU_TEST_CASE("operators: what lies on another device than x is refused") {
  const auto refuses = [](const std::function<Tensor(const std::vector<Tensor>&)>& f,
                          const std::vector<Tensor>& in) {
    for (const Device device : {cpu, cuda_device()}) {
      std::vector<Tensor> all;
      for (const Tensor& t : in) all.push_back(t.to(device));
      CHECK_NOTHROW(f(all));
      for (size_t i = 1; i < all.size(); ++i) {
        CAPTURE(i);
        std::vector<Tensor> mixed = all;
        mixed[i] = all[i].to(device.is_cuda() ? cpu : cuda_device());
        CHECK_THROWS_WITH_AS(f(mixed), doctest::Contains(mixed[i].str().c_str()), Error);
      }
    }
  };
  const Tensor x = ones({3, 4}), w = ones({4, 4}), b = ones({4}), y = from_vector<int32_t>({0, 3, 1}, {3});
  refuses([](const auto& in) { return linear(in[0], in[1], in[2], in[3]); }, {x, w, b, x});
  refuses([](const auto& in) { return mlp(in[0], in[1], in[2], in[3], in[4], in[5]); }, {x, w, b, w, b, x});
  refuses([](const auto& in) { return layer_norm(in[0], in[1], in[2], 1e-6); }, {x, b, b});
  refuses([](const auto& in) { return linear_cross_entropy(in[0], in[1], in[2], in[3]); }, {x, w, b, y});
  refuses([](const auto& in) { return linear_log_prob(in[0], in[1], in[2], in[3]); }, {x, w, b, y});
  refuses([](const auto& in) { return rpc_attention(in[0], {}, in[1]); },
          {ones({1, 5, 2, 2, 3}), ones({1, 2})});
  Tensor leaf_there = x.to(cuda_device());
  CHECK_THROWS_WITH_AS(square(leaf_there.requires_grad()).backward(x), doctest::Contains("seed"), Error);
  CHECK_THROWS_WITH_AS(leaf_there.bind_grad(zeros({3, 4})), doctest::Contains("need a contiguous"), Error);
}

TEST_CASE("layer_norm of f32 rounded to bf16 on the way is the rounded f32 one, gradients included") {
  std::vector<Device> devices = {cpu};
  if (cuda::available()) devices.push_back(cuda_device());
  for (const Device device : devices)
    for (const int64_t cols : {7, 12, 1036}) {
      std::vector<Tensor> in = {uniform({19, cols}, -1, 1, 1, 1).to(device),
                                uniform({cols}, -1, 1, 1, 2).to(device),
                                uniform({cols}, -1, 1, 1, 3).to(device)};
      const Tensor seed = uniform({19, cols}, -1, 1, 1, 4).to(DType::bf16).to(device);
      const auto run = [&](const std::function<Tensor()>& f) {
        std::vector<std::vector<double>> all;
        for (Tensor& t : in) {
          t = t.detach();
          t.requires_grad();
        }
        const Tensor y = f();
        CHECK(y.dtype() == DType::bf16);
        y.backward(seed);
        all.push_back(y.to_vector());
        for (const Tensor& t : in) {
          CHECK(t.grad().dtype() == DType::f32);
          all.push_back(t.grad().to_vector());
        }
        return all;
      };
      CHECK(run([&] { return layer_norm(in[0], in[1], in[2], 1e-6, DType::bf16); }) ==
            run([&] { return layer_norm(in[0], in[1], in[2], 1e-6).to(DType::bf16); }));
    }
  const Tensor x = zeros({2, 4}, DType::bf16), w = zeros({4});
  CHECK_THROWS_WITH_AS(layer_norm(x, w, w, 1e-6, DType::f32), doctest::Contains("result of f32"), Error);
}

TEST_CASE("tape: saved tensors are freed by the backward pass") {
  Tensor x = leaf(Values(1 << 16, 0.5));
  Tensor y = sum(square(square(x)));
  const int64_t before = memory_stats().requested;
  y.backward();
  x.zero_grad();
  // The result of the inner square is gone, though the last node still lives.
  CHECK(memory_stats().requested <= before - 8 * (1 << 16));
}

TEST_CASE("gradient check: right gradients pass, with integer and undefined inputs") {
  const auto f = [](const std::vector<Tensor>& in) {
    return matmul(in[0], in[1]) + (in[3].defined() ? in[3] : in[2].to(DType::f64));
  };
  const GradientReport r =
      check_gradient(f, {uniform({2, 3}, -1, 1, 1, 1), uniform({3, 4}, -1, 1, 1, 2), arange(4), Tensor()});
  CHECK(r.message == "");
  CHECK(r.ok);
  CHECK(r.compared == 18);
  CHECK(r.worst < 1e-2);
}

TEST_CASE("gradient check: says what is wrong, and is not satisfied with nothing") {
  const Tensor x = from_vector<double>({0.5, 2}, {2});
  const auto wrong = [](const std::vector<Tensor>& in) { return square(in[0].detach()) * in[0]; };
  const GradientReport r = check_gradient(wrong, {x});
  CHECK(!r.ok);
  CHECK(r.message.find("input 0, element 1") != std::string::npos);
  CHECK(r.worst > 600);  // of two failures the worse: 12 and 4 there

  const auto nan = [](const std::vector<Tensor>& in) { return in[0] * NAN; };
  CHECK(!check_gradient(nan, {x}).ok);
  const auto same = [](const std::vector<Tensor>& in) { return in[0] * 1.0; };
  CHECK(!check_gradient(same, {zeros({0})}).ok);
  CHECK(!check_gradient([&](const std::vector<Tensor>&) { return x; }, {arange(3)}).ok);
  const auto rounded = [](const std::vector<Tensor>& in) { return in[0].to(DType::f32); };
  CHECK(check_gradient(rounded, {x}).message.find("f64") != std::string::npos);

  GradientOptions few;
  few.max_elements = 3;
  CHECK(check_gradient(same, {zeros({100})}, few).compared == 3);
}

TEST_CASE("tape: a leaf is told of when its gradient is whole, from the last used to the first") {
  Tensor a = full({2}, 2), b = full({2}, 3), c = full({2}, 5), unused = full({2}, 7);
  for (Tensor* t : {&a, &b, &c, &unused}) t->requires_grad();
  const Tensor y = sum((a * b + b) * c);  // b is used twice
  std::vector<std::pair<const Node*, std::vector<double>>> arrived;
  backward(y, ones({}), [&](const Node& leaf) { arrived.emplace_back(&leaf, leaf.grad.to_vector()); });
  REQUIRE(arrived.size() == 3);
  const std::vector<double> of_a{15, 15}, of_b{15, 15}, of_c{9, 9};
  CHECK(arrived[0] == std::pair(static_cast<const Node*>(c.node().get()), of_c));
  for (const auto& [leaf, grad] : {arrived[1], arrived[2]}) {
    CHECK((leaf == a.node().get() || leaf == b.node().get()));
    CHECK(grad == (leaf == a.node().get() ? of_a : of_b));
  }
  CHECK(arrived[1].first != arrived[2].first);
}
