#include "engine/ops/row_sums.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "cuda/embedding.cuh"
#include "engine/cpu/parallel.h"
#include "engine/operator/operator.h"

namespace pursuit {

namespace {

struct SumRows {
  static constexpr const char* name = "sum_rows";

  static void kernel(Cpu, const Tensor& ids, const Tensor& gradients, int64_t rows, const Tensor& batch,
                     const Tensor& numbers, const Tensor& sums) {
    const int64_t n = ids.numel(), dim = gradients.size(1), most = numbers.size(1),
                  at = *batch.data<int64_t>() * most;
    const int64_t* id = ids.data<int64_t>();
    int64_t* number = numbers.data<int64_t>() + at;
    std::unordered_map<int64_t, int64_t> place_of;
    std::vector<int64_t> places(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) {
      if (id[i] < 0 || id[i] >= rows)
        fail(name, "id " + std::to_string(i) + " is " + std::to_string(id[i]) + ", need 0 to " +
                       std::to_string(rows - 1));
      const auto [found, first] = place_of.emplace(id[i], int64_t(place_of.size()));
      places[size_t(i)] = found->second;
      if (found->second == most) fail(name, "more than " + std::to_string(most) + " different ids");
      if (first) number[found->second] = id[i];
    }
    const float* gradient = gradients.data<float>();
    float* sum = sums.data<float>() + at * dim;
    std::fill_n(sum, int64_t(place_of.size()) * dim, 0.0f);
    parallel_for(dim, one_range_each(dim, 16), [&](int64_t begin, int64_t end) {
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = begin; j < end; ++j) sum[places[size_t(i)] * dim + j] += gradient[i * dim + j];
    });
  }
#ifdef PURSUIT_GPU
  static void kernel(Cuda, const Tensor& ids, const Tensor& gradients, int64_t rows, const Tensor& batch,
                     const Tensor& numbers, const Tensor& sums) {
    const int64_t dim = gradients.size(1);
    if (ids.numel() == 0 || rows == 0) return;
    const cuda::SortedTokens tokens = cuda::sort_tokens(name, ids.data<int64_t>(), ids.numel(), rows);
    const cuda::Workspace<int> place = cuda::place_ids(tokens, rows);
    cuda::with_pack<float>(dim, {gradients.data<float>()}, [&]<int V>() {
      cuda::launch<cuda::sum_rows_kernel<V>>(
          {unsigned(rows), cuda::sum_threads, cuda::shared_size<float>(V * cuda::sum_threads)},
          gradients.data<float>(), tokens.start.data(), tokens.order.data(), place.data(), rows,
          numbers.size(1), dim, batch.data<int64_t>(), numbers.data<int64_t>(), sums.data<float>());
    });
  }
#endif
};

struct AddRows {
  static constexpr const char* name = "add_rows";

  static void kernel(Cpu, const Tensor& numbers, const Tensor& sums, const Tensor& table) {
    const int64_t dim = table.size(1);
    parallel_for(numbers.numel(), std::max<int64_t>(1, 16384 / (dim + 1)), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t number = numbers.data<int64_t>()[i];
        if (number < -1 || number >= table.size(0))
          fail(name, "number " + std::to_string(i) + " is " + std::to_string(number) + ", need -1 to " +
                         std::to_string(table.size(0) - 1));
        if (number < 0) continue;
        float* row = table.data<float>() + number * dim;
        const float* sum = sums.data<float>() + i * dim;
        for (int64_t j = 0; j < dim; ++j) row[j] += sum[j];
      }
    });
  }
#ifdef PURSUIT_GPU
  static void kernel(Cuda, const Tensor& numbers, const Tensor& sums, const Tensor& table) {
    const int64_t n = numbers.numel(), dim = table.size(1);
    if (n * dim == 0) return;
    cuda::with_pack<float>(dim, {table.data<float>()}, [&]<int V>() {
      cuda::launch<cuda::add_rows_kernel<V>>({cuda::blocks_for(n * dim / V, 256), 256},
                                             numbers.data<int64_t>(), n, sums.data<float>(), table.size(0),
                                             dim, table.data<float>());
    });
  }
#endif
};

void require(bool ok, const char* name, std::initializer_list<const Tensor*> tensors) {
  std::string got;
  for (const Tensor* t : tensors) {
    got += (got.empty() ? "" : ", ") + t->str();
    ok = ok && t->is_contiguous() && t->device() == (*tensors.begin())->device();
  }
  if (!ok) fail(name, "got " + got + ", which do not fit");
}

}  // namespace

void sum_rows(const Tensor& ids, const Tensor& gradients, int64_t rows, const Tensor& batch,
              const Tensor& numbers, const Tensor& sums) {
  require_defined("sum_rows", {&ids, &gradients, &batch, &numbers, &sums});
  const int64_t n = ids.numel();
  require(ids.dtype() == DType::i64 && batch.dtype() == DType::i64 && numbers.dtype() == DType::i64 &&
              gradients.dtype() == DType::f32 && sums.dtype() == DType::f32 && gradients.ndim() == 2 &&
              gradients.size(0) == n && numbers.ndim() == 2 &&
              sums.shape() == Shape{numbers.size(0), numbers.size(1), gradients.size(1)},
          "sum_rows", {&ids, &gradients, &batch, &numbers, &sums});
  dispatch(ids.device(), "sum_rows",
           [&](auto device) { launch<SumRows>(device, ids, gradients, rows, batch, numbers, sums); });
}

void add_rows(const Tensor& numbers, const Tensor& sums, const Tensor& table) {
  require_defined("add_rows", {&numbers, &sums, &table});
  require(numbers.dtype() == DType::i64 && sums.dtype() == DType::f32 && table.dtype() == DType::f32 &&
              table.ndim() == 2 && sums.shape() == Shape{numbers.numel(), table.size(1)},
          "add_rows", {&numbers, &sums, &table});
  dispatch(table.device(), "add_rows", [&](auto device) { launch<AddRows>(device, numbers, sums, table); });
  table.bump_version("add_rows");
}

}  // namespace pursuit
