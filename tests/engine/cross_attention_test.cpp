#include <doctest/doctest.h>

#include <cmath>

#include "engine/ops.h"
#include "tests/message_of.h"

using namespace pursuit;

namespace {

struct Drawn {
  Tensor q, kv;

  Drawn(int64_t queries, int64_t keys)
      : q(normal({2, queries, 2, 4}, 0, 1, 1, 1)), kv(normal({2, keys, 2, 2, 4}, 0, 1, 1, 2)) {
    q.requires_grad();
    kv.requires_grad();
  }
  // Of a loss in which every number of the result counts differently.
  std::vector<double> result_and_gradients(const Tensor& y) const {
    std::vector<double> all = y.to_vector();
    sum(y * normal(y.shape(), 0, 1, 1, 3)).backward();
    for (const Tensor& t : {q, kv})
      for (const double g : t.grad().to_vector()) all.push_back(g);
    return all;
  }
};

void check_close(const std::vector<double>& got, const std::vector<double>& expected) {
  REQUIRE(got.size() == expected.size());
  REQUIRE(!got.empty());
  for (size_t i = 0; i < got.size(); ++i)
    if (!(std::fabs(got[i] - expected[i]) <= 1e-5 * (1 + std::fabs(expected[i]))))
      FAIL("number " << i << " is " << got[i] << ", expected " << expected[i]);
}

}  // namespace

TEST_CASE("cross_attention to a sequence's own keys is attention") {
  const Drawn a(7, 7), b(7, 7);
  const Tensor own = concat({b.q.reshape({2, 7, 1, 2, 4}), b.kv}, 2);
  check_close(a.result_and_gradients(cross_attention(a.q, a.kv)), b.result_and_gradients(attention(own)));
}

TEST_CASE("cross_attention: a hidden key is as one that is not there") {
  const Drawn a(5, 6), b(5, 6);
  std::vector<float> numbers(6, 0);
  numbers[4] = numbers[5] = -INFINITY;
  const Tensor mask = from_vector(numbers, {1, 1, 6});
  check_close(a.result_and_gradients(cross_attention(a.q, a.kv, mask)),
              b.result_and_gradients(cross_attention(b.q, b.kv.slice(1, 0, 4))));
}

TEST_CASE("cross_attention: a query that sees no key gives 0 and gets no gradient") {
  const Drawn a(3, 4);
  std::vector<float> numbers(12, 0);
  std::fill_n(numbers.begin() + 4, 4, -INFINITY);
  const std::vector<double> all =
      a.result_and_gradients(cross_attention(a.q, a.kv, from_vector(numbers, {1, 3, 4})));
  for (const double x : all) REQUIRE(std::isfinite(x));
  const Tensor y = cross_attention(a.q, a.kv, from_vector(numbers, {1, 3, 4}));
  for (const double x : y.slice(1, 1, 2).to_vector()) CHECK(x == 0);
  for (const double x : a.q.grad().slice(1, 1, 2).to_vector()) CHECK(x == 0);
}

TEST_CASE("cross_attention tells what its arguments have to be") {
  const Drawn a(3, 4);
  const auto message = [&](const Tensor& q, const Tensor& kv, const Tensor& mask) {
    return message_of([&] { cross_attention(q, kv, mask); });
  };
  CHECK(message(a.q, a.kv.slice(2, 0, 1), {}).find("need [B, M, H, D] and [B, N, 2, H, D]") !=
        std::string::npos);
  CHECK(message(a.q, a.kv, zeros({2, 3, 5})).find("need [B, M, N]") != std::string::npos);
  CHECK(message(a.q, a.kv, zeros({2, 4})).find("need [B, M, N]") != std::string::npos);
  CHECK(message(a.q, a.kv, zeros({2, 3, 4}, DType::f64)).find("in f32") != std::string::npos);
  Tensor learned = zeros({2, 3, 4});
  learned.requires_grad();
  CHECK(message(a.q, a.kv, learned).find("mask.detach()") != std::string::npos);
}
