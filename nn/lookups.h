#pragma once
#include "engine/core/tensor.h"
#include "engine/distributed/communicator.h"

namespace pursuit::nn {

// Embedding lookups in a table, a parameter [rows, dim] whose gradient also has another source: the output
// layer that shares it (tied weights). If a step has several batches, here or on other ranks, the lookups'
// gradients can be kept separate, as pairs of a row index and its sum over a batch. Then the output layer's
// part is complete as soon as backward has left that layer, and its all-reduce overlaps with the rest of
// backward; of the lookups' part, complete at the end, only the pairs are communicated.
class Lookups {
 public:
  // Keeps the gradients of `ids` lookups per batch separate, for `batches` batches per step on each of
  // `ranks` ranks, all of the same size. Does so only if there is more than one batch and the total number of
  // pairs is below two per row of the table, which is what an all-reduce of the whole table moves. A batch
  // has at most `different` distinct ids.
  void keep_apart(const Tensor& table, int64_t ids, int64_t different, int64_t batches, int64_t ranks);
  bool apart() const { return sums_.defined(); }
  // Gradients from now on belong to this batch of the step. May be captured in a graph: the batch index is in
  // device memory.
  void set_batch(int64_t batch);

  // embedding(ids, table). While gradients are kept separate, call it once per batch.
  Tensor rows(const Tensor& ids, const Tensor& table) const;

  // Call at the start of a step: discards the pairs of the last one.
  void clear();
  // Adds the pairs of all ranks to `gradient`, the table's gradient, batch by batch in rank order. All ranks
  // call it.
  void add_to(const Tensor& gradient, distributed::Communicator& ranks) const;

 private:
  int64_t most_pairs(distributed::Communicator& ranks) const;

  Tensor anchor_;               // the leaf that puts lookups on the tape
  Tensor batch_;                // i64 []
  int64_t ids_ = 0;             // per batch
  Tensor numbers_;              // i64 [batches, different], -1 where none
  Tensor sums_;                 // [batches, different, dim]
  mutable bool given_ = false;  // this batch has looked up and run backward
};

}  // namespace pursuit::nn
