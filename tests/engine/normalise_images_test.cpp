#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "engine/base/error.h"
#include "engine/ops.h"

namespace pursuit {
namespace {

// Two grey pictures of 3 x 2 pixels: 0, 51, ..., 255 and 255 everywhere. 255 becomes 1, 0 becomes -1.
Tensor two_pictures() {
  return from_vector(std::vector<uint8_t>{0, 51, 102, 153, 204, 255, 255, 255, 255, 255, 255, 255},
                     {2, 1, 2, 3});
}

std::vector<double> rounded(const Tensor& t) {
  std::vector<double> v = t.to_vector();
  for (double& x : v) x = std::round(x * 1e5) / 1e5;
  return v;
}

TEST_CASE("normalise_images: plain, mixed as a whole, and with a box from the partner") {
  const Tensor pictures = two_pictures();
  CHECK(rounded(normalise_images(pictures, {0.5}, {0.5})) ==
        std::vector<double>{-1, -0.6, -0.2, 0.2, 0.6, 1, 1, 1, 1, 1, 1, 1});
  const Tensor mixup = from_vector(std::vector<float>{0.75f, 0, 0, 3, 2, 1, 0.75f, 0, 0, 3, 2, 0}, {2, 6});
  CHECK(rounded(normalise_images(pictures, {0.5}, {0.5}, DType::f32, {}, mixup)) ==
        std::vector<double>{-0.5, -0.2, 0.1, 0.4, 0.7, 1, 0.5, 0.6, 0.7, 0.8, 0.9, 1});
  // Columns 1 and 2 of row 0.
  const Tensor cutmix = from_vector(std::vector<float>{0, 1, 0, 2, 1, 1, 0, 1, 0, 2, 1, 0}, {2, 6});
  CHECK(rounded(normalise_images(pictures, {0.5}, {0.5}, DType::f32, {}, cutmix)) ==
        std::vector<double>{-1, 1, 1, 0.2, 0.6, 1, 1, -0.6, -0.2, 1, 1, 1});
  // Each picture has its own box and partner; where there is no such picture, nothing is mixed.
  const Tensor each = from_vector(std::vector<float>{0, 0, 0, 3, 2, 2, 0.5f, 0, 1, 1, 1, 0}, {2, 6});
  CHECK(rounded(normalise_images(pictures, {0.5}, {0.5}, DType::f32, {}, each)) ==
        std::vector<double>{-1, -0.6, -0.2, 0.2, 0.6, 1, 1, 1, 1, 0.6, 1, 1});
}

TEST_CASE("normalise_images: erased boxes hold normal noise, of another stream with every count") {
  const Tensor pictures = zeros({2, 3, 40, 50}, DType::u8);
  const Tensor boxes = from_vector(std::vector<int32_t>{5, 10, 30, 20, 0, 0, 0, 0}, {2, 4});
  const auto noise = [&](int64_t count) {
    const Tensor counter = from_vector(std::vector<int64_t>{count, 0}, {2});
    return normalise_images(pictures, {1, 1, 1}, {0.1, 0.1, 0.1}, DType::f32, boxes, {}, 3, 4, counter)
        .to_vector();
  };
  const std::vector<double> first = noise(0), second = noise(1);
  double sum = 0, squares = 0;
  int64_t erased = 0, equal = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    const size_t x = i % 50, y = i / 50 % 40;
    const bool inside = i < first.size() / 2 && x >= 5 && x < 35 && y >= 10 && y < 30;
    CHECK((first[i] != doctest::Approx(-10)) == inside);
    if (!inside) continue;
    ++erased;
    sum += first[i], squares += first[i] * first[i];
    equal += first[i] == second[i];
  }
  CHECK(erased == 3 * 30 * 20);
  CHECK(equal == 0);
  CHECK(std::abs(sum / double(erased)) < 0.1);
  CHECK(squares / double(erased) == doctest::Approx(1).epsilon(0.1));
  CHECK(noise(0) == first);
  // Erasing happens before mixing: if the box is the whole picture, the partner gets the noise.
  const Tensor swap = from_vector(std::vector<float>{0, 0, 0, 50, 40, 1, 0, 0, 0, 50, 40, 0}, {2, 6});
  const std::vector<double> swapped =
      normalise_images(pictures, {1, 1, 1}, {0.1, 0.1, 0.1}, DType::f32, boxes, swap, 3, 4).to_vector();
  const std::vector<double> plain =
      normalise_images(pictures, {1, 1, 1}, {0.1, 0.1, 0.1}, DType::f32, boxes, {}, 3, 4).to_vector();
  CHECK(std::equal(plain.begin(), plain.begin() + 6000, swapped.begin() + 6000));
}

TEST_CASE("normalise_images: patches in row order, each channel by channel") {
  // One picture of 2 channels, 2 x 4, whose pixels are their own numbers.
  std::vector<uint8_t> numbers(16);
  std::iota(numbers.begin(), numbers.end(), uint8_t(0));
  const Tensor y = normalise_images(from_vector(numbers, {1, 2, 2, 4}), {0, 0}, {1 / 255.0, 1 / 255.0},
                                    DType::f32, {}, {}, 0, 0, {}, 2);
  CHECK(y.shape() == Shape{1, 2, 8});
  CHECK(rounded(y) == std::vector<double>{0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15});
}

TEST_CASE("normalise_images: what does not fit is refused") {
  const Tensor pictures = two_pictures();
  CHECK_THROWS_WITH_AS(normalise_images(pictures.to(DType::f32), {0.5}, {0.5}), doctest::Contains("need u8"),
                       Error);
  CHECK_THROWS_AS(normalise_images(zeros({1, 5, 2, 2}, DType::u8), {0, 0, 0, 0, 0}, {1, 1, 1, 1, 1}), Error);
  CHECK_THROWS_WITH_AS(normalise_images(pictures, {0.5, 0.5}, {0.5, 0.5}), doctest::Contains("2 means"),
                       Error);
  CHECK_THROWS_AS(normalise_images(pictures, {0.5}, {0}), Error);
  CHECK_THROWS_AS(normalise_images(pictures, {0.5}, {0.5}, DType::i32), Error);
  for (const int64_t patch : {-1, 2, 3})
    CHECK_THROWS_WITH_AS(normalise_images(pictures, {0.5}, {0.5}, DType::f32, {}, {}, 0, 0, {}, patch),
                         doctest::Contains("got patch"), Error);
  CHECK_THROWS_WITH_AS(normalise_images(pictures, {0.5}, {0.5}, DType::f32, zeros({1, 4}, DType::i32)),
                       doctest::Contains("erased"), Error);
  CHECK_THROWS_WITH_AS(normalise_images(pictures, {0.5}, {0.5}, DType::f32, {}, zeros({2, 5})),
                       doctest::Contains("mix"), Error);
}

}  // namespace
}  // namespace pursuit
