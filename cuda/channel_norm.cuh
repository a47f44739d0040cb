#pragma once
#include "cuda/row.cuh"
#include "engine/sizes/channel_groups.h"

// The passes over x of batch norm and group norm: B C rows, each of one channel. statistics [2, groups], sums
// [2, groups], weight and bias [C] (nullable) as in engine/ops/channel_norm.h.
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// moments [2, n]: mean and biased variance of every row about its own mean.
template <class Team, class T>
__global__ void row_moments_kernel(const T* x, int64_t n, int64_t cols, float* moments) {
  const Team team(cols);
  for (int64_t i = team.first(); i < n; i += team.step()) {
    const auto row = team.read(x + i * cols);
    float sum = 0, squares = 0;
    team.each([&](int64_t, float v) { sum += v; }, row);
    const float centre = team.sum(sum) / float(cols);
    team.each([&](int64_t, float v) { squares += (v - centre) * (v - centre); }, row);
    const float of_row = team.sum(squares);
    if (team.leads()) {
      moments[i] = centre;
      moments[n + i] = of_row / float(cols);
    }
  }
}

template <class Team, class T>
__global__ void normalise_groups_kernel(const T* x, ChannelGroups groups, const float* statistics,
                                        const float* weight, const float* bias, T* y) {
  const Team team(groups.size);
  for (int64_t i = team.first(); i < groups.rows; i += team.step()) {
    const auto row = team.read(x + i * groups.size);
    const int64_t g = groups.group_of(i), c = i % groups.channels;
    const float centre = statistics[g], rstd = statistics[groups.groups + g];
    const float factor = weight ? rstd * weight[c] : rstd, shift = bias ? bias[c] : 0;
    team.write(
        y + i * groups.size, [&](int64_t, float v) { return (v - centre) * factor + shift; }, row);
  }
}

// sums [2, rows].
template <class Team, class T>
__global__ void row_gradient_sums_kernel(const T* x, const T* gy, ChannelGroups groups,
                                         const float* statistics, float* sums) {
  const Team team(groups.size);
  for (int64_t i = team.first(); i < groups.rows; i += team.step()) {
    const auto row = team.read(x + i * groups.size);
    const auto up = team.read(gy + i * groups.size);
    const float centre = statistics[groups.group_of(i)];
    float sum = 0, product = 0;
    team.each(
        [&](int64_t, float v, float u) {
          sum += u;
          product += u * (v - centre);
        },
        row, up);
    sum = team.sum(sum);
    product = team.sum(product);
    if (team.leads()) {
      sums[i] = sum;
      sums[groups.rows + i] = product;
    }
  }
}

template <class Team, class T>
__global__ void group_norm_gradient_kernel(const T* x, const T* gy, ChannelGroups groups,
                                           const float* statistics, const float* weight, const float* sums,
                                           float numbers, T* gx) {
  const Team team(groups.size);
  for (int64_t i = team.first(); i < groups.rows; i += team.step()) {
    const auto row = team.read(x + i * groups.size);
    const auto up = team.read(gy + i * groups.size);
    const int64_t g = groups.group_of(i);
    const float centre = statistics[g], rstd = statistics[groups.groups + g];
    const float factor = weight ? rstd * weight[i % groups.channels] : rstd, shift = rstd * sums[g] / numbers,
                slope = rstd * rstd * rstd * sums[groups.groups + g] / numbers;
    team.write(
        gx + i * groups.size,
        [&](int64_t, float v, float u) { return factor * u - shift - slope * (v - centre); }, row, up);
  }
}

}  // namespace pursuit::cuda
#endif
