#pragma once
#include "engine/core/tensor.h"

// Sparse gradients of a table [rows, dim] of which few rows are looked up: pairs of a row index and its sum.
// In f32, all on one device, no autograd; on a GPU nothing synchronises.
namespace pursuit {

// Sums the rows of gradients [n, dim] by id (i64 [n], into a table of `rows`), in order. For batch *batch
// (i64 []) of several: numbers[*batch] (i64 [places]) receives every distinct id, sums[*batch] (f32 [places,
// dim]) its sum; unused places at the end are not changed. An id outside of the table, or more distinct ids
// than places, throws Error on the CPU; on a GPU an id outside is skipped, and with too many ids the sums
// become NaN.
void sum_rows(const Tensor& ids, const Tensor& gradients, int64_t rows, const Tensor& batch,
              const Tensor& numbers, const Tensor& sums);

// table[numbers[i]] += sums[i] for distinct numbers [n]; entries of -1 are skipped.
void add_rows(const Tensor& numbers, const Tensor& sums, const Tensor& table);

}  // namespace pursuit
