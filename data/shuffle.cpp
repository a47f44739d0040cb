#include "data/shuffle.h"

#include <numeric>
#include <utility>

#include "engine/base/random.h"
#include "engine/base/streams.h"

namespace pursuit::data {

std::vector<int64_t> shuffled(int64_t count, uint64_t seed, int64_t epoch) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t(0));
  Random random(seed, streams::order.at(uint64_t(epoch) << 40));
  for (int64_t i = count - 1; i > 0; --i) std::swap(order[size_t(i)], order[size_t(random.below(i + 1))]);
  return order;
}

}  // namespace pursuit::data
