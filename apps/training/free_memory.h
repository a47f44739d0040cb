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

// Of a host the least of what the system has to give (MemAvailable, page cache included), what the limits of
// its cgroups leave (version 1 or 2, the file cache not counted) and what `ulimit -v` leaves. `root` is where
// /proc and /sys are. Of so many `processes` that begin together each may take its part of the host's.
FreeMemory free_memory(Device device, int processes = 1, const std::string& root = "");

// "6.1 GiB", "512 MiB"
std::string format_bytes(int64_t bytes);

}  // namespace pursuit::apps
