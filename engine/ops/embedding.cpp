#include <limits>

#include "engine/for_each.h"
#include "engine/operator.h"
#include "engine/ops.h"

namespace pursuit {

struct Embedding {
  static constexpr const char* name = "embedding";
  Tensor ids = {};  // i64, contiguous
  Shape weight_shape = {};

  template <class T>
  static void kernel(Cpu, const int64_t* ids, int64_t count, const T* weight, int64_t vocab, int64_t dim,
                     T* y) {
    for (int64_t i = 0; i < count; ++i)
      if (ids[i] < 0 || ids[i] >= vocab)
        fail(name, "id " + std::to_string(i) + " is " + std::to_string(ids[i]) + ", need 0 to " +
                       std::to_string(vocab - 1));
    parallel_for(count, std::max<int64_t>(1, 16384 / (dim + 1)), [&](int64_t b, int64_t e) {
      for (int64_t i = b; i < e; ++i) std::copy_n(weight + ids[i] * dim, dim, y + i * dim);
    });
  }
  // Every thread adds up a range of columns over all ids in their order, so the sum does not depend on the
  // threads.
  template <class T>
  static void gradient(Cpu, const int64_t* ids, int64_t count, const T* gy, int64_t dim, compute_t<T>* gw) {
    parallel_for(dim, 16, [&](int64_t b, int64_t e) {
      for (int64_t i = 0; i < count; ++i)
        for (int64_t j = b; j < e; ++j) gw[ids[i] * dim + j] += up(gy[i * dim + j]);
    });
  }
#ifdef PURSUIT_GPU
  // An id outside the vocabulary cannot throw from a kernel: its row becomes NaN.
  template <class T>
  struct Body {
    const int64_t* ids;
    const T* weight;
    T* y;
    int64_t vocab, dim;
    HD void operator()(int64_t i) const {
      const int64_t id = ids[i / dim];
      y[i] = id >= 0 && id < vocab ? weight[id * dim + i % dim] : down<T>(NAN);
    }
  };
  template <class T>
  static void kernel(Cuda dev, const int64_t* ids, int64_t count, const T* weight, int64_t vocab, int64_t dim,
                     T* y) {
    Layout<1> flat;
    flat.ndim = 1;
    flat.numel = flat.size[0] = count * dim;
    flat.stride[0][0] = 1;
    for_each(dev, flat, Body<T>{ids, weight, y, vocab, dim});
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
    Tensor gw = zeros(weight_shape, compute_type(g.dtype()), g.device());
    dispatch(g, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch_gradient<Embedding>(dev, ids.data<int64_t>(), ids.numel(), g.data<T>(), weight_shape[1],
                                 gw.data<compute_t<T>>());
    });
    return {Tensor(), gw.to(g.dtype())};
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
    return {{{}, {labels({7}, 5), {{5, 3}}}},
            {{}, {labels({3, 11}, 20), {{20, 33}}}},
            {{}, {labels({0}, 4), {{4, 2}}}}};
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
