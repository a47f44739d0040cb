#pragma once
#include "engine/core/tensor.h"

// Gradients of a table [rows, dim] of which few rows are looked up, as pairs of a row's number and its sum.
// In f32, all on one device, off the tape; on a GPU nothing waits for it.
namespace pursuit {

// Adds the rows of gradients [n, dim] up that ids (i64 [n], of a table of `rows`) looked up, those of one id
// in their order. Of batch number *batch (i64 []) of several: numbers[*batch] (i64 [places]) gets every id
// once, sums[*batch] (f32 [places, dim]) its sum beside it; the places that are left, the last ones, stay as
// they are. An id outside of the table and more different ids than places throw Error; on a GPU the former is
// left out, and by the latter sums become NaN.
void sum_rows(const Tensor& ids, const Tensor& gradients, int64_t rows, const Tensor& batch,
              const Tensor& numbers, const Tensor& sums);

// table[numbers[i]] += sums[i], where numbers [n] differ from each other, but for any -1, which are left out.
void add_rows(const Tensor& numbers, const Tensor& sums, const Tensor& table);

}  // namespace pursuit
