#pragma once
#include "engine/core/tensor.h"
#include "engine/distributed/communicator.h"

namespace pursuit::nn {

// Rows of a table, a parameter [rows, dim], that a model looks up and whose gradient also comes from
// elsewhere: an embedding that the output layer shares. Where a step is of several batches, here or on other
// ranks, the gradients of the lookups can be kept apart, as pairs of a row's number and its sum over a batch:
// the output layer's part is then complete as soon as backward has left that layer and can be reduced over
// the ranks beside all that follows, while of the lookups' part, complete in the end, only the pairs travel.
class Lookups {
 public:
  // Keeps the gradients of so many `ids` a batch apart, of so many `batches` a step on each of the `ranks`,
  // all of this size: if there are several and all their pairs are fewer than two for each of the table's
  // rows, which is what a reduction of the whole table moves. At most so many of a batch's ids are
  // `different`.
  void keep_apart(const Tensor& table, int64_t ids, int64_t different, int64_t batches, int64_t ranks);
  bool apart() const { return sums_.defined(); }
  // What backward gives from now on is of this batch of a step's. May be recorded: the number changes on the
  // device.
  void set_batch(int64_t batch);

  // embedding(ids, table). While they are kept apart a batch looks up once.
  Tensor rows(const Tensor& ids, const Tensor& table) const;

  // At the start of a step: no batch has given anything yet.
  void clear();
  // Adds what the batches of all ranks gave to `gradient`, that of the table, batch after batch in the order
  // of the ranks. All ranks call it.
  void add_to(const Tensor& gradient, distributed::Communicator& ranks) const;

 private:
  int64_t most_pairs(distributed::Communicator& ranks) const;

  Tensor anchor_;               // the leaf by which lookups are on the tape
  Tensor batch_;                // i64 []
  int64_t ids_ = 0;             // of a batch
  Tensor numbers_;              // i64 [batches, different], -1 where none
  Tensor sums_;                 // [batches, different, dim]
  mutable bool given_ = false;  // the batch has looked up and backward was there
};

}  // namespace pursuit::nn
