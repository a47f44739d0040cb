#pragma once
#include <cstdint>
#include <string>

#include "engine/core/device.h"

namespace pursuit::apps {

// The memory that this process can still allocate, what its pool holds unused included, and its limit.
struct FreeMemory {
  int64_t bytes;
  std::string limit;  // "available memory", "the cgroup's limit", "ulimit -v" or "memory of cuda:0"
};

// On a host this is the minimum of MemAvailable (which includes the page cache), of what the cgroups' limits
// (version 1 or 2, file cache not counted as used) leave, and of what `ulimit -v` leaves. `root` is the
// folder that holds /proc and /sys. With several `processes` each gets an equal part of the host's memory.
FreeMemory free_memory(Device device, int processes = 1, const std::string& root = "");

// For example "6.1 GiB" or "512 MiB".
std::string format_bytes(int64_t bytes);

}  // namespace pursuit::apps
