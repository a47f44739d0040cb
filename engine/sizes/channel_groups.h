#pragma once
#include <cstdint>

#include "engine/base/hd.h"

namespace pursuit {

// x [B, C, ...] as B C rows of `size` numbers, where row i has channel i % C, and the groups of rows that
// share a mean and variance: the rows of a channel, or `count` adjacent ones.
struct ChannelGroups {
  int64_t rows, channels, size;
  int64_t groups, count;  // number of groups; rows per group
  bool by_channel;

  HD int64_t group_of(int64_t row) const { return by_channel ? row % channels : row / count; }
  HD int64_t row_of(int64_t group, int64_t i) const {
    return by_channel ? i * channels + group : group * count + i;
  }
  int64_t numbers() const { return count * size; }  // per group
};

}  // namespace pursuit
