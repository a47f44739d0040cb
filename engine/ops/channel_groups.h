#pragma once
#include <cstdint>

#include "engine/base/hd.h"

namespace pursuit {

// x [B, C, ...] seen as B C rows of `size` numbers, row i of channel i % C, and which rows share a mean and a
// variance: those of a channel, or `count` neighbours.
struct ChannelGroups {
  int64_t rows, channels, size;
  int64_t groups, count;  // how many there are, of how many rows each
  bool by_channel;

  HD int64_t group_of(int64_t row) const { return by_channel ? row % channels : row / count; }
  HD int64_t row_of(int64_t group, int64_t i) const {
    return by_channel ? i * channels + group : group * count + i;
  }
  int64_t numbers() const { return count * size; }  // of a group
};

}  // namespace pursuit
