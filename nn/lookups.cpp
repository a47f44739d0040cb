#include "nn/lookups.h"

#include <algorithm>
#include <string>

#include "engine/operator/copy.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"
#include "engine/ops/row_sums.h"

namespace pursuit::nn {

void Lookups::keep_apart(const Tensor& table, int64_t ids, int64_t different, int64_t batches,
                         int64_t ranks) {
  *this = Lookups();
  if (batches * ranks == 1 || different > (2 * table.size(0) - 1) / (batches * ranks)) return;
  MemoryTag tag("weight gradients");
  anchor_ = zeros({});
  anchor_.requires_grad();
  batch_ = zeros({}, DType::i64, table.device());
  ids_ = ids;
  numbers_ = full({batches, different}, -1, DType::i64, table.device());
  sums_ = zeros({batches, different, table.size(1)}, DType::f32, table.device());
}

void Lookups::set_batch(int64_t batch) {
  if (!apart()) return;
  const int64_t number = batch % numbers_.size(0);
  write_small(batch_, &number);
  given_ = false;
}

Tensor Lookups::rows(const Tensor& ids, const Tensor& table) const {
  if (!apart() || !grad_enabled()) return embedding(ids, table);
  Tensor found = embedding(ids, table.detach());
  const Argument arguments[] = {{&anchor_, anchor_.storage().use_count()}, {&ids, ids.storage().use_count()}};
  record(found, "lookup", arguments,
         [this, ids, rows = table.size(0)](const Tensor& gradient, const Tensor&) {
           if (given_) fail("lookup", "a batch looked up twice, and its gradients are kept for one lookup");
           if (ids.numel() != ids_)
             fail("lookup", "a batch looked up " + std::to_string(ids.numel()) +
                                " rows, and gradients are kept for " + std::to_string(ids_));
           given_ = true;
           sum_rows(ids.to(DType::i64).reshape({-1}), gradient.reshape({-1, sums_.size(2)}).contiguous(),
                    rows, batch_, numbers_, sums_);
           return Grads{Tensor(), Tensor()};
         });
  return found;
}

void Lookups::clear() {
  copy_values(numbers_, full({1}, -1, DType::i64, numbers_.device()).expand(numbers_.shape()));
  given_ = false;
}

// On a GPU this returns the upper bound, since reading the number would synchronise.
int64_t Lookups::most_pairs(distributed::Communicator& ranks) const {
  const int64_t batches = numbers_.size(0), different = numbers_.size(1);
  if (numbers_.device().is_cuda()) return different;
  int64_t most = 0;
  for (int64_t b = 0; b < batches; ++b) {
    const int64_t* begin = numbers_.data<int64_t>() + b * different;
    most = std::max<int64_t>(most, std::find(begin, begin + different, -1) - begin);
  }
  const Tensor of_all = full({1}, double(most), DType::i64);
  ranks.all_reduce(of_all, distributed::Reduction::max);
  return *of_all.data<int64_t>();
}

void Lookups::add_to(const Tensor& gradient, distributed::Communicator& ranks) const {
  const int64_t batches = numbers_.size(0), most = most_pairs(ranks), dim = sums_.size(2);
  if (most == 0) return;
  const auto gathered = [&](const Tensor& places, DType wire) {
    const Tensor mine = places.slice(1, 0, most).to(wire).contiguous();
    Shape shape = mine.shape();
    shape.insert(0, ranks.size());
    const Tensor all = empty(shape, wire, mine.device());
    ranks.all_gather(mine, all);
    return all;
  };
  const Tensor numbers = gathered(numbers_, DType::i64).reshape({-1, most}),
               sums = gathered(sums_, ranks.wire()).to(DType::f32).reshape({-1, most, dim});
  for (int64_t b = 0; b < ranks.size() * batches; ++b)
    add_rows(numbers.select(0, b), sums.select(0, b), gradient);
}

}  // namespace pursuit::nn
