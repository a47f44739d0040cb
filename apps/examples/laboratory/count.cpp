#include <cstdio>
#include <string>

#include "apps/examples/laboratory/laboratory.h"
#include "apps/examples/laboratory/programs.h"
#include "engine/ops.h"

namespace pursuit::laboratory {

namespace {

struct Column {
  const char* name;
  int64_t Counts::*value;
  bool kib = false;
};

// Prints a Markdown table with a line per version; `call` counts one version.
template <class F> void print_table(const std::string& title, const std::string& subject,
                                    const std::vector<int>& of, const std::vector<Column>& columns,
                                    const F& call) {
  std::printf("%s:\n\n|", title.c_str());
  for (const Column& c : columns) std::printf(" | %s", c.name);
  std::printf(" |\n|---");
  for (size_t i = 0; i < columns.size(); ++i) std::printf("|---:");
  std::printf("|\n");
  for (int version : of) {
    Counts counts;
    call(version, &counts);
    std::printf("| `%s_%d`", subject.c_str(), version);
    for (const Column& c : columns)
      if (c.kib)
        std::printf(" | %.1f", double(counts.*c.value) / 1024);
      else
        std::printf(" | %lld", static_cast<long long>(counts.*c.value));
    std::printf(" |\n");
  }
  std::printf("\n");
}

std::string product(int64_t m, int64_t k, int64_t n) {
  const auto size = [](int64_t rows, int64_t cols) {
    return std::to_string(rows) + " x " + std::to_string(cols);
  };
  return size(m, k) + " by " + size(k, n);
}

Tensor input(const Shape& shape, uint64_t stream) { return uniform(shape, -1, 1, 1, stream); }

#ifdef PURSUIT_SIMULATED
// Sizes are multiples of all tiles, so that all threads of a warp take the same branches.
void count_kernels() {
  const Device gpu = cuda_device();
  const std::vector<Column> memory = {{"launches", &Counts::launches},
                                      {"blocks", &Counts::blocks},
                                      {"loads", &Counts::loads},
                                      {"KiB loaded", &Counts::loaded_bytes, true},
                                      {"stores", &Counts::stores},
                                      {"KiB stored", &Counts::stored_bytes, true},
                                      {"sectors", &Counts::sectors},
                                      {"shared accesses", &Counts::shared_accesses},
                                      {"KiB shared", &Counts::shared_bytes, true}};
  std::vector<Column> columns = memory;
  columns.push_back({"exponentials", &Counts::exponentials});
  const auto count_softmax = [&](const std::vector<int>& of, int64_t rows, int64_t cols) {
    const Tensor x = input({rows, cols}, 0).to(gpu);
    print_table("Softmax of " + std::to_string(rows) + " rows of " + std::to_string(cols) + " columns",
                "softmax", of, columns, [&](int version, Counts* c) { softmax(version, x, c); });
  };
  count_softmax({1, 2, 3, 4}, 64, 512);
  count_softmax({2, 3, solution}, 8, 4096);
  columns = memory;
  columns.push_back({"multiply-adds", &Counts::multiply_adds});
  const auto count_matmul = [&](const std::vector<int>& of, int64_t m, int64_t k, int64_t n) {
    const Tensor a = input({m, k}, 0).to(gpu), b = input({k, n}, 1).to(gpu);
    print_table("Matrix product, " + product(m, k, n), "matmul", of, columns,
                [&](int version, Counts* c) { matmul(version, a, b, c); });
  };
  count_matmul({1, 2, 3, 4}, 256, 64, 256);
  count_matmul({2, 4, solution}, 32, 4096, 32);
}
#else
void count_kernels() {
  std::fprintf(stderr,
               "kernels are counted on the simulated GPU only: configure with -DPURSUIT_CUDA=SIMULATED\n");
}
#endif

}  // namespace

int count() {
  count_kernels();
  const int64_t m = 192, k = 192, n = 768;
  const Tensor a = input({m, k}, 0), b = input({k, n}, 1);
  print_table("Matrix product on the CPU, " + product(m, k, n), "cpu_matmul", {1, 2, 3, 4},
              {{"loads", &Counts::loads},
               {"KiB loaded", &Counts::loaded_bytes, true},
               {"stores", &Counts::stores},
               {"KiB stored", &Counts::stored_bytes, true},
               {"multiply-adds", &Counts::multiply_adds}},
              [&](int version, Counts* c) { cpu_matmul(version, a, b, c); });
  return 0;
}

}  // namespace pursuit::laboratory
