#include "nn/rank_gradients.h"

#include "engine/core/tape.h"
#include "nn/lookups.h"

namespace pursuit::nn {

RankGradients::RankGradients(FlatParameters& flat, distributed::Communicator& ranks, int slices)
    : flat_(flat), ranks_(ranks) {
  int64_t rest = flat.grads.numel();
  for (size_t i = 0; i < flat.size(); ++i) {
    if (!flat.lookups(i)) continue;
    slices_.push_back({i, i + 1});
    rest -= flat.offset(i + 1) - flat.offset(i);
  }
  const size_t tables = slices_.size();
  const int64_t most = (rest + slices - 1) / slices;
  for (size_t i = flat.size(); i-- > 0;) {
    if (flat.lookups(i)) continue;
    const bool fits = slices_.size() > tables && slices_.back().first == i + 1 &&
                      flat.offset(slices_.back().last) - flat.offset(i) <= most;
    if (fits)
      slices_.back().first = i;
    else
      slices_.push_back({i, i + 1});
  }
  for (size_t s = 0; s < slices_.size(); ++s)
    for (size_t i = slices_[s].first; i < slices_[s].last; ++i) slice_of_[flat.leaf(i)] = s;
}

void RankGradients::backward(const Tensor& loss, const Tensor& seed) {
  for (Slice& slice : slices_) slice.waiting = slice.last - slice.first;
  // All ranks start their reductions in the same order, in whichever order gradients become ready.
  size_t next = 0;
  pursuit::backward(loss, seed, [&](const Node& leaf) {
    const auto slice = slice_of_.find(&leaf);
    if (slice == slice_of_.end()) return;
    --slices_[slice->second].waiting;
    for (; next < slices_.size() && slices_[next].waiting == 0; ++next) start(slices_[next]);
  });
  for (; next < slices_.size(); ++next) start(slices_[next]);  // parameters that the loss does not depend on
}

void RankGradients::start(const Slice& slice) {
  flat_.add_grad(slice.first, slice.last);
  const int64_t begin = flat_.offset(slice.first), end = flat_.offset(slice.last);
  if (begin < end) ranks_.start_all_reduce(flat_.grads.slice(0, begin, end), distributed::Reduction::sum);
}

void RankGradients::wait() {
  ranks_.wait();
  const auto gradients = flat_.named(flat_.grads);
  for (size_t i = 0; i < flat_.size(); ++i)
    if (const Lookups* apart = flat_.lookups(i)) apart->add_to(gradients[i].second, ranks_);
}

}  // namespace pursuit::nn
