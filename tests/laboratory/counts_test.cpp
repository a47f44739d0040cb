#include <doctest/doctest.h>

#include "apps/examples/laboratory/laboratory.h"
#include "engine/ops.h"

// The counts of the meters against formulas, at sizes that are multiples of the tiles. Sizes are in numbers
// of 4 bytes, 8 of which make a sector.
using namespace pursuit;
using laboratory::Counts;

namespace {

Tensor numbers(const Shape& shape) { return uniform(shape, -1, 1, 1, 0); }

void same(const Counts& got, const Counts& want) {
  CHECK(got.launches == want.launches);
  CHECK(got.blocks == want.blocks);
  CHECK(got.loads == want.loads);
  CHECK(got.loaded_bytes == want.loaded_bytes);
  CHECK(got.stores == want.stores);
  CHECK(got.stored_bytes == want.stored_bytes);
  CHECK(got.sectors == want.sectors);
  CHECK(got.shared_accesses == want.shared_accesses);
  CHECK(got.shared_bytes == want.shared_bytes);
  CHECK(got.exponentials == want.exponentials);
  CHECK(got.multiply_adds == want.multiply_adds);
}

// The same in vectors of `width` numbers.
Counts memory(int64_t launches, int64_t blocks, int64_t loaded, int64_t stored, int64_t sectors,
              int64_t width = 1) {
  Counts c;
  c.launches = launches;
  c.blocks = blocks;
  c.loads = loaded / width;
  c.loaded_bytes = 4 * loaded;
  c.stores = stored / width;
  c.stored_bytes = 4 * stored;
  c.sectors = sectors;
  return c;
}

}  // namespace

#ifdef PURSUIT_SIMULATED  // kernels are counted there only
TEST_CASE("laboratory: counts of softmax") {
  const int64_t n = 32, cols = 256, all = n * cols, warp = 32;
  const Tensor x = numbers({n, cols}).to(cuda_device());
  const auto count = [&](int version) {
    Counts c;
    laboratory::softmax(version, x, &c);
    return c;
  };
  // Neighbouring threads are a row apart: a sector for each number, but for the rows' maxima and sums.
  Counts want = memory(3, 3, 3 * all + 2 * n, 2 * all + 2 * n, 5 * all + 4 * n / 8);
  want.exponentials = all;
  same(count(1), want);
  // A tree of 256 threads: each stores its part and loads the result; of the 255 sums each has two loads,
  // one store.
  const int64_t tree = 2 * 256 + 3 * 255;
  want = memory(1, n, 3 * all, all, 4 * all / 8);
  want.exponentials = 2 * all;
  want.shared_accesses = 2 * n * tree;
  want.shared_bytes = 4 * want.shared_accesses;
  same(count(2), want);
  // Two exponentials whenever sums are joined: once a number, and in five rounds of shuffles.
  want = memory(1, n / 4, 2 * all, all, 3 * all / 8);
  want.exponentials = 3 * all + 2 * 5 * warp * n;
  same(count(3), want);
  want = memory(1, n / 4, all, all, 2 * all / 8, 4);
  want.exponentials = all;
  same(count(4), want);
  want = memory(1, n, all, all, 2 * all / 8);
  want.exponentials = all;
  want.shared_accesses = 2 * n * tree + 4 * all;
  want.shared_bytes = 4 * want.shared_accesses;
  same(count(5), want);
}

TEST_CASE("laboratory: counts of the matrix product") {
  const int64_t m = 128, k = 32, n = 256, products = m * n * k;
  const Tensor a = numbers({m, k}).to(cuda_device()), b = numbers({k, n}).to(cuda_device());
  const auto count = [&](int version) {
    Counts c;
    laboratory::matmul(version, a, b, &c);
    return c;
  };
  // A warp loads one number of A, which is a sector, and 32 of B, which are four.
  Counts want = memory(1, m * n / 256, 2 * products, m * n, products / 32 * 5 + m * n / 8);
  want.multiply_adds = products;
  same(count(1), want);
  want = memory(1, m * n / 1024, 2 * products / 32, m * n, 2 * products / 32 / 8 + m * n / 8);
  want.shared_accesses = 2 * products / 32 + 2 * products;
  want.shared_bytes = 4 * want.shared_accesses;
  want.multiply_adds = products;
  same(count(2), want);
  // 16 numbers from shared memory for 64 products.
  want = memory(1, m * n / 128 / 128, 2 * products / 128, m * n, 2 * products / 128 / 8 + m * n / 8);
  want.shared_accesses = 2 * products / 128 + 16 * products / 64;
  want.shared_bytes = 4 * want.shared_accesses;
  want.multiply_adds = products;
  same(count(3), want);
  // A's piece is stored number by number, all else in fours.
  want = memory(1, m * n / 128 / 128, 2 * products / 128, m * n, 2 * products / 128 / 8 + m * n / 8, 4);
  want.shared_accesses = products / 128 + products / 128 / 4 + 4 * products / 64;
  want.shared_bytes = 4 * (2 * products / 128 + 16 * products / 64);
  want.multiply_adds = products;
  same(count(4), want);
}

TEST_CASE("laboratory: counts of a product whose terms are shared by blocks") {
  const int64_t m = 32, k = 1024, n = 32, products = m * n * k, parts = 2;
  Counts got;
  laboratory::matmul(5, numbers({m, k}).to(cuda_device()), numbers({k, n}).to(cuda_device()), &got);
  Counts want = memory(2, parts + m * n / 256, 2 * products / 32 + parts * m * n, (parts + 1) * m * n,
                       2 * products / 32 / 8 + (2 * parts + 1) * m * n / 8);
  want.shared_accesses = 2 * products / 32 + 2 * products;
  want.shared_bytes = 4 * want.shared_accesses;
  want.multiply_adds = products;
  same(got, want);
}
#endif

TEST_CASE("laboratory: counts of the CPU's matrix product") {
  const int64_t m = 16, k = 512, n = 96, products = m * n * k, width = 48, rows = 8, depth = 256;
  const Tensor a = numbers({m, k}), b = numbers({k, n});
  const auto count = [&](int version) {
    Counts c;
    laboratory::cpu_matmul(version, a, version == 5 ? b.transpose(0, 1) : b, &c);
    return c;
  };
  Counts want = memory(0, 0, 2 * products, m * n, 0);
  want.multiply_adds = products;
  same(count(1), want);
  // C is loaded and stored for each of its terms.
  want = memory(0, 0, 2 * products + m * k, products + m * n, 0);
  want.multiply_adds = products;
  same(count(2), want);
  same(count(3), want);
  // A tile loads a number of A for `width` products and a vector of B, of 16, for 16 * rows; C comes by in
  // vectors once for every `depth`; B is packed number by number.
  const int64_t of_c = m * n * k / depth;
  for (int version : {4, 5}) {
    const Counts got = count(version);
    CHECK(got.multiply_adds == products);
    CHECK(got.loads == products / width + products / (16 * rows) + of_c / 16 + k * n);
    CHECK(got.loaded_bytes == 4 * (products / width + products / rows + of_c + k * n));
    CHECK(got.stores == m * n + of_c / 16 + k * n);
    CHECK(got.stored_bytes == 4 * (m * n + of_c + k * n));
  }
}
