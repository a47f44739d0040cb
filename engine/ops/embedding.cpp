#include "cuda/embedding.cuh"

#include "engine/cpu/parallel.h"
#include "engine/cpu/wide_rows.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

struct Embedding {
  static constexpr const char* name = "embedding";
  Tensor ids = {};  // i64, contiguous
  Shape weight_shape = {};

  template <class T> static void kernel(Cpu, const int64_t* ids, int64_t count, const T* weight,
                                        int64_t vocab, int64_t dim, T* y) {
    for (int64_t i = 0; i < count; ++i)
      if (ids[i] < 0 || ids[i] >= vocab)
        fail(name, "id " + std::to_string(i) + " is " + std::to_string(ids[i]) + ", need 0 to " +
                       std::to_string(vocab - 1));
    parallel_for(count, std::max<int64_t>(1, 16384 / (dim + 1)), [&](int64_t b, int64_t e) {
      for (int64_t i = b; i < e; ++i) std::copy_n(weight + ids[i] * dim, dim, y + i * dim);
    });
  }
  // Each thread sums a range of columns over all ids in order, so the sum does not depend on the number of
  // threads.
  template <class T> static void gradient(Cpu, const Tensor& tokens, const T* gy, const Tensor& gw) {
    using R = compute_t<T>;
    const int64_t *ids = tokens.data<int64_t>(), count = tokens.numel(), dim = gw.size(1);
    std::vector<R> wide;
    std::fill_n(gw.data<T>(), gw.numel(), T{});
    change_row(gw.data<T>(), gw.numel(), wide, [&](R* sums) {
      parallel_for(dim, one_range_each(dim, 16), [&](int64_t b, int64_t e) {
        for (int64_t i = 0; i < count; ++i)
          for (int64_t j = b; j < e; ++j) sums[ids[i] * dim + j] += upcast(gy[i * dim + j]);
      });
    });
  }
#ifdef PURSUIT_GPU
  template <class T> static void kernel(Cuda, const int64_t* ids, int64_t count, const T* weight,
                                        int64_t vocab, int64_t dim, T* y) {
    if (count * dim == 0) return;
    cuda::with_pack<T>(dim, {weight}, [&]<int V>() {
      cuda::launch<cuda::embedding_kernel<V, T>>({cuda::blocks_for(count * dim / V, 256), 256}, ids, count,
                                                 weight, vocab, dim, y);
    });
  }
  template <class T> static void gradient(Cuda, const Tensor& ids, const T* gy, const Tensor& gw) {
    const int64_t vocab = gw.size(0), dim = gw.size(1);
    if (gw.numel() == 0) return;
    const cuda::SortedTokens tokens = cuda::sort_tokens(name, ids.data<int64_t>(), ids.numel(), vocab);
    cuda::with_pack<T>(dim, {gy}, [&]<int V>() {
      cuda::launch<cuda::embedding_gradient_kernel<V, T>>(
          {unsigned(vocab), cuda::sum_threads, cuda::shared_size<float>(V * cuda::sum_threads)}, gy,
          tokens.start.data(), tokens.order.data(), dim, gw.data<T>());
    });
  }
#endif

  Tensor forward(const Tensor& in, const Tensor& weight) {
    ids = in.to(DType::i64).contiguous();
    weight_shape = weight.shape();
    const Tensor w = weight.contiguous();
    Shape shape = ids.shape();
    shape.push_back(w.size(1));
    Tensor y = empty(shape, w.dtype(), w.device());
    dispatch(w, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch<Embedding>(dev, ids.data<int64_t>(), ids.numel(), w.data<T>(), w.size(0), w.size(1),
                        y.data<T>());
    });
    return y;
  }
  Grads backward(const Tensor& gy, Needs) {
    const Tensor g = gy.contiguous();
    Tensor gw = empty(weight_shape, g.dtype(), g.device());
    dispatch(g, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch_gradient<Embedding>(dev, ids, g.data<T>(), gw);
    });
    return {Tensor(), gw};
  }
  Tensor reference(const Tensor& in, const Tensor& weight) const {
    const int64_t vocab = weight.size(0);
    std::vector<double> one_hot(size_t(in.numel() * vocab));
    const std::vector<double> id = in.to_vector();
    for (size_t i = 0; i < id.size(); ++i) one_hot[i * size_t(vocab) + size_t(id[i])] = 1;
    Shape shape = in.shape();
    shape.push_back(weight.size(1));
    const Tensor pick = from_vector(one_hot, {in.numel(), vocab}).to(weight.dtype()).to(weight.device());
    return matmul(pick, weight).reshape(shape);
  }
  static std::vector<Sample<Embedding>> samples() {
    return {{{}, {labels({7}, 5), {{5, 3}}}},       {{}, {labels({3, 11}, 20), {{20, 33}}}},
            {{}, {labels({5, 100}, 3), {{7, 24}}}}, {{}, {labels({70}, 600), {{600, 8}}}},
            {{}, {labels({3}, 3), {{3, 1040}}}},    {{}, {labels({0}, 4), {{4, 2}}}}};
  }
};
PURSUIT_OPERATOR(Embedding)

Tensor embedding(const Tensor& ids, const Tensor& weight) {
  if (weight.ndim() != 2 || is_floating(ids.dtype()) || ids.device() != weight.device())
    fail("embedding", "got ids " + ids.str() + " and weight " + weight.str() +
                          ", need integers and [vocab, dim] on one device");
  return apply(Embedding{}, ids, weight);
}

}  // namespace pursuit
