#include "engine/cpu/int8_kernels.h"

#include "tests/engine/cpu_rows_test.h"

namespace pursuit::cpu_rows_test {

namespace {

std::vector<const Int8Kernels*> all_int8_kernels() {
  std::vector<const Int8Kernels*> found;
  for (const char* isa : {"sse2", "avx2", "avx_vnni", "avx512", "avx512_vnni", "amx"}) {
    if (const Int8Kernels* kernels = int8_kernels_of(isa))
      found.push_back(kernels);
    else
      MESSAGE("this CPU lacks " << std::string(isa) << ": its int8 kernels are not tested");
  }
  return found;
}

struct Case {
  int64_t m, n, k;
};
// Around the tiles and the groups of every instruction set.
constexpr Case cases[] = {{1, 1, 1},     {2, 3, 5},      {7, 16, 2},   {8, 48, 64},
                          {9, 49, 257},  {197, 64, 197}, {50, 50, 32}, {16, 33, 600},
                          {23, 100, 31}, {64, 7, 129},   {6, 17, 3},   {5, 200, 4}};

// The codes themselves are the numbers: a grid of step 1.
AffineGrid whole_numbers(int32_t zero) { return {1, zero, 255}; }

std::vector<char> packed(const Int8Kernels& kernels, Matrix<int8_t>& w, int64_t parts) {
  std::vector<char> to(size_t(kernels.packed_size(w.rows, w.cols)), char(0x55));
  for (int64_t part = 0; part < parts; ++part)
    kernels.pack(w.rows, w.cols, w.data(), w.ld, part, parts, to.data());
  return to;
}

// The sums of a product, in `parts` parts.
Matrix<int32_t> product(const Int8Kernels& kernels, Floats& x, Matrix<int8_t>& w, int32_t zero,
                        int64_t parts) {
  std::vector<char> codes(size_t(kernels.coded_size(x.rows, x.cols)), char(0x55));
  CHECK(kernels.encode(x.data(), x.rows, x.cols, x.ld, whole_numbers(zero), codes.data()));
  const std::vector<char> weights = packed(kernels, w, parts);
  Matrix<int32_t> c(x.rows, w.rows);
  for (int64_t part = 0; part < parts; ++part)
    kernels.gemm(x.rows, w.rows, x.cols, codes.data(), zero, weights.data(), part, parts, c.data(), c.ld);
  return c;
}

int64_t wrong_sums(Floats& x, Matrix<int8_t>& w, Matrix<int32_t>& c) {
  int64_t wrong = 0;
  for (int64_t i = 0; i < c.rows; ++i)
    for (int64_t j = 0; j < c.cols; ++j) {
      int64_t sum = 0;
      for (int64_t k = 0; k < x.cols; ++k) sum += int64_t(x(i, k)) * w(j, k);
      wrong += c(i, j) != sum;
    }
  return wrong;
}

}  // namespace

TEST_CASE("int8 products are exact integers, on every instruction set") {
  for (const Int8Kernels* kernels : all_int8_kernels()) {
    for (const Case& s : cases) {
      for (const int32_t zero : {0, 131, 255}) {
        for (const int64_t parts : {1, 3}) {
          CAPTURE(kernels->isa);
          CAPTURE(s.m);
          CAPTURE(s.n);
          CAPTURE(s.k);
          CAPTURE(zero);
          std::mt19937 draw(7);
          Floats x(s.m, s.k);
          x.fill([&] { return double(draw() % 256) - zero; });
          Matrix<int8_t> w(s.n, s.k);
          w.fill([&] { return int(draw() % 256) - 128; });
          Matrix<int32_t> c = product(*kernels, x, w, zero, parts);
          CHECK(wrong_sums(x, w, c) == 0);
          CHECK(c.intact());
        }
      }
    }
  }
}

TEST_CASE("int8 products of the largest numbers do not overflow at the greatest depth") {
  for (const Int8Kernels* kernels : all_int8_kernels()) {
    CAPTURE(kernels->isa);
    for (const int32_t zero : {0, 255}) {
      Floats x(2, deepest_int8_product);
      x.fill([&] { return zero == 0 ? 255 : -255; });
      Matrix<int8_t> w(3, deepest_int8_product);
      w.fill([] { return -128; });
      Matrix<int32_t> c = product(*kernels, x, w, zero, 1);
      CHECK(wrong_sums(x, w, c) == 0);
    }
  }
}

TEST_CASE("int8 products, scaled and with a bias") {
  for (const Int8Kernels* kernels : all_int8_kernels()) {
    for (const Case& s : cases) {
      for (const bool with_bias : {false, true}) {
        CAPTURE(kernels->isa);
        CAPTURE(s.n);
        std::mt19937 draw(3);
        Floats x(s.m, s.k), scale(1, s.n, true), bias(1, s.n, true), y(s.m, s.n);
        x.fill([&] { return double(draw() % 256) - 100; });
        Matrix<int8_t> w(s.n, s.k);
        w.fill([&] { return int(draw() % 256) - 128; });
        scale.fill([&] { return 0.001 * double(1 + draw() % 9); });
        bias.fill(normal(5));
        Matrix<int32_t> c = product(*kernels, x, w, 100, 1);
        std::vector<char> codes(size_t(kernels->coded_size(s.m, s.k)));
        kernels->encode(x.data(), s.m, s.k, x.ld, whole_numbers(100), codes.data());
        kernels->gemm_scaled(s.m, s.n, s.k, codes.data(), 100, packed(*kernels, w, 2).data(), 0, 1,
                             scale.data(), with_bias ? bias.data() : nullptr, y.data(), y.ld);
        // Two roundings of f32, one where they are fused.
        check_matrix(
            y,
            [&](int64_t i, int64_t j) {
              return double(scale(0, j)) * c(i, j) + (with_bias ? double(bias(0, j)) : 0);
            },
            3e-7, 1e-6);
      }
    }
  }
}

TEST_CASE("rounding to a grid: ties to even, clamped, zero exact, NaN kept and without a code") {
  const AffineGrid grid{0.5f, 3, 15};  // -1.5 to 6
  const std::vector<float> x = {0, -0.2f, 0.25f, 0.75f, 1.25f, -9, 7, kInf, -kInf, 1e30f, 5.9f, -1.4f, 3.3f};
  const std::vector<float> want = {0, 0, 0, 1, 1, -1.5f, 6, 6, -1.5f, 6, 6, -1.5f, 3.5f};
  for (const Int8Kernels* kernels : all_int8_kernels()) {
    CAPTURE(kernels->isa);
    std::vector<float> y(x.size());
    kernels->fake_quantize(x.data(), y.data(), int64_t(x.size()), grid);
    CHECK(y == want);
    y[1] = kNan;
    std::vector<char> codes(size_t(kernels->coded_size(1, int64_t(x.size()))));
    CHECK(kernels->encode(x.data(), 1, int64_t(x.size()), int64_t(x.size()), grid, codes.data()));
    CHECK(!kernels->encode(y.data(), 1, int64_t(x.size()), int64_t(x.size()), grid, codes.data()));
    kernels->fake_quantize(y.data(), y.data(), int64_t(x.size()), grid);
    CHECK(std::isnan(y[1]));
    y[1] = want[1];
    CHECK(y == want);  // what is on the grid stays
  }
}

}  // namespace pursuit::cpu_rows_test
