#pragma once
#include <cstdint>
#include <string>

#include "engine/core/device.h"

namespace pursuit::apps {

// What this process may still take, and what sets the limit: "available memory", "the cgroup's limit",
// "ulimit -v", "memory of cuda:0".
struct FreeMemory {
  int64_t bytes;
  std::string limit;
};

// On a host this is the least of what the system can give (MemAvailable, page cache included), what the
// limits of its cgroups leave (version 1 or 2, without the file cache) and what `ulimit -v` leaves. `root` is
// where /proc and /sys are. If several `processes` start together, each may take its part of the host's.
FreeMemory free_memory(Device device, int processes = 1, const std::string& root = "");

// "6.1 GiB", "512 MiB"
std::string format_bytes(int64_t bytes);

}  // namespace pursuit::apps
