#include <doctest/doctest.h>

#include <cmath>

#include "engine/gradcheck.h"
#include "engine/ops.h"

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
  Tensor ids = arange(3);
  CHECK_THROWS_AS(ids.requires_grad(), Error);
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
  CHECK(r.message.find("input 0, element 0") != std::string::npos);

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
