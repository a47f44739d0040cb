#include <algorithm>

#include "engine/core/dtype.h"
#include "engine/cpu/bf16_tiles.h"
#include "tests/differences.h"
#include "tests/engine/cpu_rows_test.h"

namespace pursuit::cpu_rows_test {

namespace {

struct Case {
  int64_t m, n, k;
};
// Around the tiles of every instruction set, and inner dimensions of less and more than one block.
constexpr Case cases[] = {{1, 1, 1},    {2, 3, 5},     {8, 48, 64},   {9, 49, 257}, {197, 64, 197},
                          {50, 50, 32}, {16, 33, 600}, {23, 100, 31}, {64, 7, 129}};

}  // namespace

TEST_CASE("gemm: every product of plain and transposed matrices, on every instruction set") {
  for (const RowKernels<float>* kernels : all_kernels()) {
    for (const Case& c : cases) {
      for (const bool ta : {false, true}) {
        for (const bool tb : {false, true}) {
          for (const auto& factors : {std::pair{1.0f, 0.0f}, {0.125f, 1.0f}, {-2.0f, 0.5f}}) {
            const float alpha = factors.first, beta = factors.second;
            CAPTURE(kernels->isa);
            CAPTURE(c.m);
            CAPTURE(c.n);
            CAPTURE(c.k);
            CAPTURE(ta);
            CAPTURE(tb);
            Floats a(ta ? c.k : c.m, ta ? c.m : c.k), b(tb ? c.n : c.k, tb ? c.k : c.n), y(c.m, c.n);
            a.fill(normal(1));
            b.fill(normal(2));
            // beta = 0 must not read the result.
            if (beta == 0)
              y.fill([] { return kNan; });
            else
              y.fill(normal(3));
            Floats before = y;
            kernels->gemm(ta, tb, c.m, c.n, c.k, alpha, a.data(), a.ld, b.data(), b.ld, beta, y.data(), y.ld);
            double worst = 0;
            for (int64_t i = 0; i < c.m; ++i) {
              for (int64_t j = 0; j < c.n; ++j) {
                double sum = 0, size = 0;
                for (int64_t k = 0; k < c.k; ++k) {
                  const double term = double(ta ? a(k, i) : a(i, k)) * double(tb ? b(j, k) : b(k, j));
                  sum += term;
                  size += std::abs(term);
                }
                const double want = alpha * sum + (beta == 0 ? 0 : beta * double(before(i, j)));
                const double error = std::abs(y(i, j) - want) / (std::abs(alpha) * size + 1);
                worst = larger(worst, error);
              }
            }
            CHECK(worst < 2e-6);
            CHECK(y.intact());
          }
        }
      }
    }
  }
}

TEST_CASE("a packed right factor gives the product bit for bit, packed by any number of callers") {
  for (const RowKernels<float>* kernels : all_kernels()) {
    for (const Case& c : cases) {
      for (const bool tb : {false, true}) {
        for (const int64_t parts : {1, 2, 7}) {
          CAPTURE(kernels->isa);
          CAPTURE(c.m);
          CAPTURE(c.n);
          CAPTURE(c.k);
          CAPTURE(tb);
          Floats a(c.m, c.k), b(tb ? c.n : c.k, tb ? c.k : c.n), got(c.m, c.n), want(c.m, c.n);
          a.fill(normal(6));
          b.fill(normal(7));
          Floats packed(1, kernels->packed_size(c.n, c.k));
          packed.fill([] { return kNan; });
          for (int64_t part = 0; part < parts; ++part)
            kernels->pack(tb, c.n, c.k, b.data(), b.ld, part, parts, packed.data());
          kernels->gemm_packed(c.m, c.n, c.k, 1, a.data(), a.ld, {packed.data(), c.n, c.k}, 0, got.data(),
                               got.ld);
          kernels->gemm(false, tb, c.m, c.n, c.k, 1, a.data(), a.ld, b.data(), b.ld, 0, want.data(), want.ld);
          bool same = true;
          for (int64_t i = 0; i < c.m; ++i)
            for (int64_t j = 0; j < c.n; ++j) same = same && got(i, j) == want(i, j);
          CHECK(same);
          CHECK(got.intact());
          CHECK(packed.intact());
        }
      }
    }
  }
}

TEST_CASE(
    "the first rows and columns of a packed right factor, with alpha and beta, on every instruction set") {
  for (const RowKernels<float>* kernels : all_kernels()) {
    for (const Case& c : cases) {
      for (const auto& part : {std::pair{c.n, c.k}, {(c.n + 1) / 2, c.k}, {(c.n + 2) / 3, (c.k + 1) / 2}}) {
        const int64_t n = part.first, k = part.second;
        CAPTURE(kernels->isa);
        CAPTURE(c.n);
        CAPTURE(c.k);
        CAPTURE(n);
        CAPTURE(k);
        Floats a(c.m, k), b(c.k, c.n), y(c.m, n);
        a.fill(normal(6));
        b.fill(normal(7));
        y.fill(normal(8));
        Floats before = y;
        Floats packed(1, kernels->packed_size(c.n, c.k));
        kernels->pack(false, c.n, c.k, b.data(), b.ld, 0, 1, packed.data());
        kernels->gemm_packed(c.m, n, k, 0.5f, a.data(), a.ld, {packed.data(), c.n, c.k}, 2, y.data(), y.ld);
        double worst = 0;
        for (int64_t i = 0; i < c.m; ++i)
          for (int64_t j = 0; j < n; ++j) {
            double sum = 0, size = 1;
            for (int64_t l = 0; l < k; ++l) {
              sum += double(a(i, l)) * double(b(l, j));
              size += std::abs(double(a(i, l)) * double(b(l, j)));
            }
            const double error = std::abs(y(i, j) - 0.5 * sum - 2 * double(before(i, j))) / size;
            worst = larger(worst, error);
          }
        CHECK(worst < 2e-6);
        CHECK(y.intact());
      }
    }
  }
}

TEST_CASE("few rows: dot products with rows of w, NaN beside them, on every instruction set") {
  for (const RowKernels<float>* kernels : all_kernels()) {
    for (const int64_t m : {1, 2, 3, 4}) {
      for (const int64_t n : {1, 4, 7, 33}) {
        for (const int64_t k : {1, 3, 4, 15, 16, 31, 64, 197}) {
          CAPTURE(kernels->isa);
          CAPTURE(m);
          CAPTURE(n);
          CAPTURE(k);
          Floats x(m, k), w(n, k), y(m, n), of_bf16(m, n);
          for (Floats* with_nan : {&x, &w}) {
            with_nan->guard = kNan;
            std::fill(with_nan->storage.begin(), with_nan->storage.end(), kNan);
          }
          x.fill(normal(1));
          w.fill([next = normal(2)] { return upcast(downcast<bf16>(float(next()))); });
          Matrix<uint16_t> narrow(n, k);
          std::fill(narrow.storage.begin(), narrow.storage.end(), uint16_t(0x7fc0));
          for (int64_t j = 0; j < n; ++j)
            for (int64_t l = 0; l < k; ++l) narrow(j, l) = downcast<bf16>(w(j, l)).bits;
          kernels->few_rows(m, n, k, x.data(), x.ld, w.data(), w.ld, y.data(), y.ld);
          kernels->few_rows_bf16(m, n, k, x.data(), x.ld, narrow.data(), narrow.ld, of_bf16.data(),
                                 of_bf16.ld);
          double worst = 0;
          bool same = true;
          for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < n; ++j) {
              double sum = 0, size = 1;
              for (int64_t l = 0; l < k; ++l) {
                sum += double(x(i, l)) * double(w(j, l));
                size += std::abs(double(x(i, l)) * double(w(j, l)));
              }
              const double error = std::abs(y(i, j) - sum) / size;
              worst = larger(worst, error);
              same = same && y(i, j) == of_bf16(i, j);
            }
          CHECK(worst < 1e-6);
          CHECK(same);
          CHECK(y.intact());
          CHECK(of_bf16.intact());
        }
      }
    }
  }
}

namespace {

// bf16 numbers between NaN, which a product must not read.
struct Words : Matrix<uint16_t> {
  Words(int64_t height, int64_t width) : Matrix(height, width) {
    guard = 0x7fc0;
    std::fill(storage.begin(), storage.end(), guard);
  }
  static uint16_t word_of(double x) { return downcast<bf16>(float(x)).bits; }
  double value(int64_t i, int64_t j) { return double(upcast(bf16{(*this)(i, j)})); }
  Words& draw(unsigned seed) {
    fill([next = normal(seed)] { return word_of(next()); });
    return *this;
  }
};

// The largest error of y = alpha op(a) op(b) + beta before, relative to the sum of its terms' magnitudes.
template <class Result> double worst_error(Words& a, bool ta, Words& b, bool tb, double alpha, double beta,
                                           int64_t depth, Matrix<float>& before, const Result& result) {
  double worst = 0;
  for (int64_t i = 0; i < before.rows; ++i)
    for (int64_t j = 0; j < before.cols; ++j) {
      double sum = 0, size = 1e-6;
      for (int64_t k = 0; k < depth; ++k) {
        const double term = (ta ? a.value(k, i) : a.value(i, k)) * (tb ? b.value(j, k) : b.value(k, j));
        sum += term;
        size += std::abs(term);
      }
      const double kept = beta == 0 ? 0 : beta * double(before(i, j));
      const double error =
          std::abs(result(i, j) - (alpha * sum + kept)) / (std::abs(alpha) * size + std::abs(kept));
      worst = larger(worst, error);
    }
  return worst;
}

// All that this CPU can run.
std::vector<const Bf16Tiles*> all_tiles() {
  std::vector<const Bf16Tiles*> found;
  for (const char* isa : {"avx512", "amx"}) {
    if (const Bf16Tiles* tiles = bf16_tiles_of(isa))
      found.push_back(tiles);
    else
      MESSAGE("this CPU has no bf16 tiles of " << std::string(isa) << ": they are not tested");
  }
  return found;
}

}  // namespace

TEST_CASE("bf16 tiles: few rows, NaN beside them") {
  for (const Bf16Tiles* tiles : all_tiles()) {
    CAPTURE(tiles->isa);
    for (const int64_t m : {1, 2, 3, 4})
      for (const int64_t n : {1, 4, 7, 33})
        for (const int64_t k : {1, 2, 31, 32, 33, 64, 197}) {
          CAPTURE(m);
          CAPTURE(n);
          CAPTURE(k);
          Words x(m, k), w(n, k);
          x.draw(1);
          w.draw(2);
          Floats y(m, n), none(m, n);
          tiles->few_rows(m, n, k, x.data(), x.ld, w.data(), w.ld, y.data(), y.ld);
          CHECK(worst_error(x, false, w, true, 1, 0, k, none,
                            [&](int64_t i, int64_t j) { return double(y(i, j)); }) < 1e-6);
          CHECK(y.intact());
        }
  }
}

TEST_CASE("bf16 tiles: every product of plain and transposed matrices") {
  for (const Bf16Tiles* tiles : all_tiles()) {
    CAPTURE(tiles->isa);
    for (const Case& c : {Case{1, 1, 1},
                          {2, 3, 5},
                          {8, 48, 64},
                          {9, 49, 257},
                          {197, 64, 197},
                          {50, 50, 32},
                          {23, 100, 31},
                          {64, 7, 129},
                          {16, 33, 1024},
                          {7, 18, 2051},
                          {40, 16, 1023}})
      for (const bool ta : {false, true})
        for (const bool tb : {false, true})
          for (const auto& factors : {std::pair{1.0f, 0.0f}, {0.125f, 1.0f}, {-2.0f, 0.5f}}) {
            const float alpha = factors.first, beta = factors.second;
            CAPTURE(c.m);
            CAPTURE(c.n);
            CAPTURE(c.k);
            CAPTURE(ta);
            CAPTURE(tb);
            CAPTURE(beta);
            Words a(ta ? c.k : c.m, ta ? c.m : c.k), b(tb ? c.n : c.k, tb ? c.k : c.n), rounded(c.m, c.n);
            a.draw(1);
            b.draw(2);
            Floats y(c.m, c.n), before(c.m, c.n);
            // beta = 0 must not read the result.
            before.fill(beta == 0 ? std::function<double()>([] { return kNan; }) : normal(3));
            for (int64_t i = 0; i < c.m; ++i)
              for (int64_t j = 0; j < c.n; ++j) {
                rounded(i, j) = Words::word_of(before(i, j));
                y(i, j) = before(i, j) = float(rounded.value(i, j));
              }
            Matrix<uint32_t> workspace(1, tiles->workspace_size(ta, c.m, c.k));
            tiles->gemm(ta, tb, c.m, c.n, c.k, alpha, a.data(), a.ld, b.data(), b.ld, beta, y.data(), y.ld,
                        workspace.data());
            CHECK(worst_error(a, ta, b, tb, alpha, beta, c.k, before,
                              [&](int64_t i, int64_t j) { return double(y(i, j)); }) < 4e-6);
            CHECK(y.intact());
            if (c.k <= tiles->max_depth) {
              tiles->gemm_rounded(ta, tb, c.m, c.n, c.k, alpha, a.data(), a.ld, b.data(), b.ld, beta,
                                  rounded.data(), rounded.ld, workspace.data());
              CHECK(worst_error(a, ta, b, tb, alpha, beta, c.k, before,
                                [&](int64_t i, int64_t j) { return rounded.value(i, j); }) < 0.0040);
              CHECK(rounded.intact());
            }
            CHECK(workspace.intact());
          }
  }
}

TEST_CASE(
    "bf16 tiles: a packed right factor gives the product bit for bit, packed by any number of callers") {
  for (const Bf16Tiles* tiles : all_tiles()) {
    CAPTURE(tiles->isa);
    for (const Case& c : {Case{1, 1, 1}, {9, 49, 257}, {197, 64, 197}, {16, 33, 1024}, {7, 18, 2051}})
      for (const bool tb : {false, true})
        for (const int64_t parts : {1, 2, 7}) {
          CAPTURE(c.m);
          CAPTURE(c.n);
          CAPTURE(c.k);
          CAPTURE(tb);
          Words a(c.m, c.k), b(tb ? c.n : c.k, tb ? c.k : c.n), got_words(c.m, c.n), want_words(c.m, c.n);
          a.draw(6);
          b.draw(7);
          Floats got(c.m, c.n), want(c.m, c.n);
          Matrix<uint32_t> packed(1, tiles->packed_size(c.n, c.k));
          packed.fill([] { return 0xffffffffu; });
          for (int64_t part = 0; part < parts; ++part)
            tiles->pack(tb, c.n, c.k, b.data(), b.ld, part, parts, packed.data());
          tiles->gemm_packed(c.m, c.n, c.k, 1, a.data(), a.ld, {packed.data(), c.n, c.k}, 0, got.data(),
                             got.ld);
          tiles->gemm(false, tb, c.m, c.n, c.k, 1, a.data(), a.ld, b.data(), b.ld, 0, want.data(), want.ld,
                      nullptr);
          if (c.k <= tiles->max_depth) {
            tiles->gemm_packed_rounded(c.m, c.n, c.k, 1, a.data(), a.ld, {packed.data(), c.n, c.k}, 0,
                                       got_words.data(), got_words.ld);
            tiles->gemm_rounded(false, tb, c.m, c.n, c.k, 1, a.data(), a.ld, b.data(), b.ld, 0,
                                want_words.data(), want_words.ld, nullptr);
          }
          bool same = true;
          for (int64_t i = 0; i < c.m; ++i)
            for (int64_t j = 0; j < c.n; ++j)
              same = same && got(i, j) == want(i, j) && got_words(i, j) == want_words(i, j);
          CHECK(same);
          CHECK(got.intact());
          CHECK(got_words.intact());
          CHECK(packed.intact());
        }
  }
}

TEST_CASE("bf16 tiles: the first rows and columns of a packed right factor, NaN in the others") {
  for (const Bf16Tiles* tiles : all_tiles())
    for (const auto& c : {Case{1, 1, 2}, {33, 20, 34}, {17, 40, 64}, {40, 64, 62}, {5, 3, 1030}}) {
      CAPTURE(tiles->isa);
      CAPTURE(c.k);
      const int64_t more_rows = c.k + 67, more_columns = c.n + 21;
      Words a(c.m, c.k), b(more_rows, more_columns);
      a.draw(8);
      b.draw(9);
      for (int64_t l = 0; l < more_rows; ++l)
        for (int64_t j = 0; j < more_columns; ++j)
          if (l >= c.k || j >= c.n) b(l, j) = 0x7fc0;
      Matrix<uint32_t> packed(1, tiles->packed_size(more_columns, more_rows));
      tiles->pack(false, more_columns, more_rows, b.data(), b.ld, 0, 1, packed.data());
      Floats y(c.m, c.n), none(c.m, c.n);
      none.fill([] { return 0; });
      for (int64_t n = c.n; n > 0; n -= 16) {
        tiles->gemm_packed(c.m, n, c.k, 1, a.data(), a.ld, {packed.data(), more_columns, more_rows}, 0,
                           y.data(), y.ld);
        CHECK(worst_error(a, false, b, false, 1, 0, c.k, none,
                          [&](int64_t i, int64_t j) { return double(y(i, j)); }) < 4e-6);
        CHECK(y.intact());
      }
    }
}

TEST_CASE("gram is a product with its own transpose, and exactly symmetric") {
  for (const RowKernels<float>* kernels : all_kernels()) {
    for (const auto& size : {std::pair<int64_t, int64_t>{1, 3}, {16, 64}, {50, 32}, {197, 64}, {33, 300}}) {
      const int64_t n = size.first, k = size.second;
      CAPTURE(kernels->isa);
      CAPTURE(n);
      Floats a(n, k), y(n, n), whole(n, n);
      a.fill(normal(4));
      kernels->gram(n, k, 0.5f, a.data(), a.ld, y.data(), y.ld);
      kernels->gemm(false, true, n, n, k, 0.5f, a.data(), a.ld, a.data(), a.ld, 0, whole.data(), whole.ld);
      bool same = true, symmetric = true;
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          same = same && close(y(i, j), whole(i, j), 1e-6, 1e-5);
          symmetric = symmetric && y(i, j) == y(j, i);
        }
      }
      CHECK(same);
      CHECK(symmetric);
      CHECK(y.intact());
    }
  }
}

TEST_CASE("symmetrize adds the transpose") {
  for (const RowKernels<float>* kernels : all_kernels()) {
    for (const int64_t n : {0, 1, 7, 16, 33, 197}) {
      CAPTURE(kernels->isa);
      CAPTURE(n);
      Floats x(n, n);
      x.fill(normal(5));
      Floats before = x;
      kernels->symmetrize(x.data(), n, x.ld);
      bool right = true;
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j) right = right && x(i, j) == before(i, j) + before(j, i);
      CHECK(right);
      CHECK(x.intact());
    }
  }
}

}  // namespace pursuit::cpu_rows_test
