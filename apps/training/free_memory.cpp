#include "apps/training/free_memory.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>

#include "cuda/runtime.h"
#include "engine/core/memory.h"

namespace pursuit::apps {

namespace {

namespace fs = std::filesystem;

constexpr int64_t without_limit = std::numeric_limits<int64_t>::max();

// The number after the word `key` in a file; with an empty key the file's only number. Empty for "max".
std::optional<int64_t> number_in(const fs::path& file, const std::string& key = "") {
  std::ifstream in(file);
  std::string word;
  int64_t value = 0;
  if (key.empty()) return in >> value ? std::optional(value) : std::nullopt;
  while (in >> word)
    if (word == key && in >> value) return value;
  return std::nullopt;
}

// The memory that one cgroup's limit leaves. Its usage includes the file cache, which can be reclaimed.
int64_t left_in_cgroup(const fs::path& folder, bool version2) {
  const auto limit = number_in(folder / (version2 ? "memory.max" : "memory.limit_in_bytes"));
  const auto used = number_in(folder / (version2 ? "memory.current" : "memory.usage_in_bytes"));
  if (!limit || !used) return without_limit;
  int64_t cache = 0;
  for (const char* kind : {"inactive_file", "active_file"})
    cache += number_in(folder / "memory.stat", (version2 ? "" : "total_") + std::string(kind)).value_or(0);
  return std::max<int64_t>(0, *limit - std::max<int64_t>(0, *used - cache));
}

// The least memory that the process's cgroup and its ancestors leave. In a container the path may be the
// host's and not exist; then the root of the mount is the container's cgroup.
int64_t left_in_cgroups(const std::string& root) {
  std::ifstream in(root + "/proc/self/cgroup");
  int64_t least = without_limit;
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool version2 = controllers.empty();
    if (!version2 && ("," + controllers + ",").find(",memory,") == line.npos) continue;
    const fs::path mount = root + (version2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory");
    fs::path group = fs::path(line.substr(second + 1)).relative_path();
    for (;; group = group.parent_path()) {
      least = std::min(least, left_in_cgroup(mount / group, version2));
      if (group.empty()) break;
    }
  }
  return least;
}

int64_t left_of_address_space(const std::string& root) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return without_limit;
  const int64_t used = number_in(root + "/proc/self/status", "VmSize:").value_or(0) * 1024;
  return std::max<int64_t>(0, int64_t(limit.rlim_cur) - used);
}

}  // namespace

FreeMemory free_memory(Device device, int processes, const std::string& root) {
  const MemoryStats pool = memory_stats(device);
  const int64_t cached = pool.reserved - pool.allocated;
  if (device.is_cuda()) {
    size_t free = 0, total = 0;
    cuda::memory_info(device.index, free, total);
    return {int64_t(free) + cached, "memory of " + device.name()};
  }
  const auto available = number_in(root + "/proc/meminfo", "MemAvailable:");
  FreeMemory least{available ? *available * 1024 : without_limit, "available memory"};
  if (const int64_t left = left_in_cgroups(root); left < least.bytes) least = {left, "the cgroup's limit"};
  if (processes > 1) {
    least.bytes /= processes;
    least.limit += fmt::format(" of each of {} ranks", processes);
  }
  if (const int64_t left = left_of_address_space(root); left < least.bytes) least = {left, "ulimit -v"};
  if (least.bytes < without_limit) least.bytes += cached;
  return least;
}

std::string format_bytes(int64_t bytes) {
  const double mib = double(bytes) / (1 << 20);
  if (mib < 1024) return fmt::format("{:.0f} MiB", mib);
  return mib < 1024 * 1024 ? fmt::format("{:.1f} GiB", mib / 1024)
                           : fmt::format("{:.1f} TiB", mib / (1024 * 1024));
}

}  // namespace pursuit::apps
