#include "engine/ops/channel_norm.h"

#include <cmath>

#include "cuda/channel_norm.cuh"
#include "engine/cpu/scratch.h"
#include "engine/cpu/wide_rows.h"
#include "engine/operator/for_each.h"
#include "engine/operator/operator.h"

namespace pursuit {

namespace {

template <class R> const R* numbers_or_null(const Tensor& t) { return t.defined() ? t.data<R>() : nullptr; }

int64_t size_of_row(const Tensor& x) {
  int64_t size = 1;
  for (int d = 2; d < x.ndim(); ++d) size *= x.size(d);
  return size;
}

// Calls f(row) for each row of the groups, several per thread.
template <class F> void for_each_row(const ChannelGroups& groups, const F& f) {
  parallel_for(groups.rows, std::max<int64_t>(1, 16384 / (groups.size + 1)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(i);
  });
}

// Calls f(i) for 0 <= i < n on the device.
template <class Dev, class F> void for_each_number(Dev dev, int64_t n, const F& f) {
  Layout<1> flat;
  flat.ndim = 1;
  flat.numel = flat.size[0] = n;
  flat.stride[0][0] = 1;
  for_each(dev, flat, f);
}

struct RowMoments {
  template <class T> static void kernel(Cpu, const ChannelGroups& groups, const T* x, compute_t<T>* moments) {
    using R = compute_t<T>;
    const int64_t size = groups.size;
    for_each_row(groups, [&](int64_t i) {
      const Rows<const R> row = read_rows(x + i * size, size, 1, size, scratch<R>(0, copied<T>(size)));
      rows<R>().moments(row.p, size, moments + i, moments + groups.rows + i);
    });
  }
#ifdef PURSUIT_GPU
  template <class T> static void kernel(Cuda, const ChannelGroups& groups, const T* x, float* moments) {
    if (groups.rows == 0) return;
    cuda::with_team<T>(groups.size, {x}, [&]<class Team>(Type<Team>) {
      cuda::launch<cuda::row_moments_kernel<Team, T>>(Team::grid(groups.rows), x, groups.rows, groups.size,
                                                      moments);
    });
  }
#endif
};

// A group's moments from those of its rows, all of one length; in double, for groups of many short rows.
template <class R> struct GroupMoments {
  ChannelGroups groups;
  const R* rows;
  R* moments;
  HD void operator()(int64_t g) const {
    double mean = 0, variance = 0;
    for (int64_t k = 0; k < groups.count; ++k) mean += double(rows[groups.row_of(g, k)]);
    mean /= double(groups.count);
    for (int64_t k = 0; k < groups.count; ++k) {
      const int64_t row = groups.row_of(g, k);
      const double off = double(rows[row]) - mean;
      variance += double(rows[groups.rows + row]) + off * off;
    }
    moments[g] = R(mean);
    moments[groups.groups + g] = R(variance / double(groups.count));
  }
};

template <class R> struct InvertVariance {
  R* variances;
  R eps;
  HD void operator()(int64_t g) const { variances[g] = 1 / std::sqrt(variances[g] + eps); }
};

struct NormaliseGroups {
  template <class T> static void kernel(Cpu, const ChannelGroups& groups, const T* x,
                                        const compute_t<T>* statistics, const compute_t<T>* weight,
                                        const compute_t<T>* bias, T* y) {
    using R = compute_t<T>;
    const int64_t size = groups.size;
    for_each_row(groups, [&](int64_t i) {
      const int64_t g = groups.group_of(i), c = i % groups.channels;
      R* copy = scratch<R>(0, 2 * copied<T>(size));
      const Rows<const R> row = read_rows(x + i * size, size, 1, size, copy);
      const Rows<R> to = target_rows(y + i * size, size, size, copy + copied<T>(size));
      const R spread = statistics[groups.groups + g];
      rows<R>().normalise(row.p, to.p, size, statistics[g], weight ? spread * weight[c] : spread,
                          bias ? bias[c] : R(0));
      store_rows(y + i * size, size, 1, size, to);
    });
  }
#ifdef PURSUIT_GPU
  template <class T> static void kernel(Cuda, const ChannelGroups& groups, const T* x,
                                        const float* statistics, const float* weight, const float* bias,
                                        T* y) {
    if (groups.rows == 0) return;
    cuda::with_team<T>(groups.size, {x, y}, [&]<class Team>(Type<Team>) {
      cuda::launch<cuda::normalise_groups_kernel<Team, T>>(Team::grid(groups.rows), x, groups, statistics,
                                                           weight, bias, y);
    });
  }
#endif
};

struct RowGradientSums {
  template <class T> static void kernel(Cpu, const ChannelGroups& groups, const T* x, const T* gy,
                                        const compute_t<T>* statistics, compute_t<T>* sums) {
    using R = compute_t<T>;
    const int64_t size = groups.size;
    for_each_row(groups, [&](int64_t i) {
      R* copy = scratch<R>(0, 2 * copied<T>(size));
      const Rows<const R> row = read_rows(x + i * size, size, 1, size, copy);
      const Rows<const R> up = read_rows(gy + i * size, size, 1, size, copy + copied<T>(size));
      rows<R>().centred_sums(row.p, up.p, size, statistics[groups.group_of(i)], sums + i,
                             sums + groups.rows + i);
    });
  }
#ifdef PURSUIT_GPU
  template <class T> static void kernel(Cuda, const ChannelGroups& groups, const T* x, const T* gy,
                                        const float* statistics, float* sums) {
    if (groups.rows == 0) return;
    cuda::with_team<T>(groups.size, {x, gy}, [&]<class Team>(Type<Team>) {
      cuda::launch<cuda::row_gradient_sums_kernel<Team, T>>(Team::grid(groups.rows), x, gy, groups,
                                                            statistics, sums);
    });
  }
#endif
};

template <class R> struct ParameterGradients {
  ChannelGroups groups;
  const R *sums, *statistics;
  R* gradients;
  HD void operator()(int64_t c) const {
    double weight = 0, bias = 0;
    for (int64_t row = c; row < groups.rows; row += groups.channels) {
      const int64_t g = groups.group_of(row);
      weight += double(sums[groups.rows + row] * statistics[groups.groups + g]);
      bias += double(sums[row]);
    }
    gradients[c] = R(weight);
    gradients[groups.channels + c] = R(bias);
  }
};

template <class R> struct GroupGradientSums {
  ChannelGroups groups;
  const R *rows, *weight;
  R* sums;
  HD void operator()(int64_t g) const {
    double sum = 0, product = 0;
    for (int64_t k = 0; k < groups.count; ++k) {
      const int64_t row = groups.row_of(g, k);
      const double w = weight ? double(weight[row % groups.channels]) : 1;
      sum += w * double(rows[row]);
      product += w * double(rows[groups.rows + row]);
    }
    sums[g] = R(sum);
    sums[groups.groups + g] = R(product);
  }
};

struct GroupNormGradient {
  template <class T> static void kernel(Cpu, const ChannelGroups& groups, const T* x, const T* gy,
                                        const compute_t<T>* statistics, const compute_t<T>* weight,
                                        const compute_t<T>* sums, double numbers, T* gx) {
    using R = compute_t<T>;
    const int64_t size = groups.size;
    for_each_row(groups, [&](int64_t i) {
      const int64_t g = groups.group_of(i);
      R* copy = scratch<R>(0, 3 * copied<T>(size));
      const Rows<const R> row = read_rows(x + i * size, size, 1, size, copy);
      const Rows<const R> up = read_rows(gy + i * size, size, 1, size, copy + copied<T>(size));
      const Rows<R> to = target_rows(gx + i * size, size, size, copy + 2 * copied<T>(size));
      const R spread = statistics[groups.groups + g];
      rows<R>().centred_grad(
          row.p, up.p, to.p, size, statistics[g], weight ? spread * weight[i % groups.channels] : spread,
          spread * sums[g] / R(numbers), spread * spread * spread * sums[groups.groups + g] / R(numbers));
      store_rows(gx + i * size, size, 1, size, to);
    });
  }
#ifdef PURSUIT_GPU
  template <class T> static void kernel(Cuda, const ChannelGroups& groups, const T* x, const T* gy,
                                        const float* statistics, const float* weight, const float* sums,
                                        double numbers, T* gx) {
    if (groups.rows == 0) return;
    cuda::with_team<T>(groups.size, {x, gy, gx}, [&]<class Team>(Type<Team>) {
      cuda::launch<cuda::group_norm_gradient_kernel<Team, T>>(Team::grid(groups.rows), x, gy, groups,
                                                              statistics, weight, sums, float(numbers), gx);
    });
  }
#endif
};

// In the compute dtype of x.
Tensor pairs(const Tensor& x, int64_t n) { return empty({2, n}, compute_type(x.dtype()), x.device()); }

}  // namespace

ChannelGroups channels_of(const Tensor& x) {
  return {x.size(0) * x.size(1), x.size(1), size_of_row(x), x.size(1), x.size(0), true};
}

ChannelGroups groups_of_channels(const Tensor& x, int64_t groups_of_sample) {
  return {x.size(0) * x.size(1),        x.size(1), size_of_row(x), x.size(0) * groups_of_sample,
          x.size(1) / groups_of_sample, false};
}

Tensor group_moments(const char* name, const Tensor& x, const ChannelGroups& groups) {
  const Tensor of_rows = pairs(x, groups.rows), moments = pairs(x, groups.groups);
  dispatch(x, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
    using R = compute_t<T>;
    RowMoments::kernel(dev, groups, x.data<T>(), of_rows.data<R>());
    for_each_number(dev, groups.groups, GroupMoments<R>{groups, of_rows.data<R>(), moments.data<R>()});
  });
  return moments;
}

void invert_variances(const char* name, const Tensor& moments, double eps) {
  dispatch(moments, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
    using R = compute_t<T>;
    const int64_t n = moments.size(1);
    for_each_number(dev, n, InvertVariance<R>{moments.select(0, 1).data<R>(), R(eps)});
  });
}

Tensor normalise_groups(const char* name, const Tensor& x, const ChannelGroups& groups,
                        const Tensor& statistics, const Tensor& weight, const Tensor& bias) {
  Tensor y = empty_like(x);
  dispatch(x, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
    using R = compute_t<T>;
    NormaliseGroups::kernel(dev, groups, x.data<T>(), statistics.data<R>(), numbers_or_null<R>(weight),
                            numbers_or_null<R>(bias), y.data<T>());
  });
  return y;
}

Tensor row_gradient_sums(const char* name, const Tensor& x, const Tensor& gy, const ChannelGroups& groups,
                         const Tensor& statistics) {
  Tensor sums = pairs(x, groups.rows);
  dispatch(x, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
    using R = compute_t<T>;
    RowGradientSums::kernel(dev, groups, x.data<T>(), gy.data<T>(), statistics.data<R>(), sums.data<R>());
  });
  return sums;
}

Tensor parameter_gradients(const char* name, const Tensor& row_sums, const ChannelGroups& groups,
                           const Tensor& statistics) {
  Tensor gradients = pairs(row_sums, groups.channels);
  dispatch(row_sums, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
    using R = compute_t<T>;
    for_each_number(
        dev, groups.channels,
        ParameterGradients<R>{groups, row_sums.data<R>(), statistics.data<R>(), gradients.data<R>()});
  });
  return gradients;
}

Tensor group_gradient_sums(const char* name, const Tensor& row_sums, const ChannelGroups& groups,
                           const Tensor& weight) {
  Tensor sums = pairs(row_sums, groups.groups);
  dispatch(row_sums, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
    using R = compute_t<T>;
    for_each_number(
        dev, groups.groups,
        GroupGradientSums<R>{groups, row_sums.data<R>(), numbers_or_null<R>(weight), sums.data<R>()});
  });
  return sums;
}

Tensor group_norm_gradient(const char* name, const Tensor& x, const Tensor& gy, const ChannelGroups& groups,
                           const Tensor& statistics, const Tensor& weight, const Tensor& sums,
                           double numbers) {
  Tensor gx = empty_like(x);
  dispatch(x, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
    using R = compute_t<T>;
    GroupNormGradient::kernel(dev, groups, x.data<T>(), gy.data<T>(), statistics.data<R>(),
                              numbers_or_null<R>(weight), sums.data<R>(), numbers, gx.data<T>());
  });
  return gx;
}

}  // namespace pursuit
