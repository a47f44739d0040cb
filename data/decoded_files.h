#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "engine/base/error.h"
#include "engine/files/atomic_file.h"

namespace pursuit::data {

// Numbered items of type T, decoded from files on demand, thread-safe. Caches some of them, and optionally
// replaces a damaged item by the next good one.
template <class T> class DecodedFiles {
 public:
  // load(i) decodes item i or throws Error; bytes(item) is its size in memory. Items are cached until
  // cache_bytes are used. Nothing is evicted: an epoch visits every item once and would evict each before its
  // next use.
  DecodedFiles(std::string name, int64_t size, std::function<T(int64_t)> load,
               std::function<int64_t(const T&)> bytes, bool skip_bad, int64_t cache_bytes)
      : name_(std::move(name)),
        size_(size),
        load_(std::move(load)),
        bytes_(std::move(bytes)),
        skip_bad_(skip_bad),
        budget_(cache_bytes) {}

  // Item i and its index; with skip_bad, those of the next good item (after the last comes the first). Throws
  // UnreadableFile, with skip_bad too.
  std::pair<T, int64_t> get(int64_t i) const {
    return get(
        i, [this](int64_t candidate) { return cached(candidate); }, true);
  }

  // The same, decoded by load(i) instead and not cached. Unless it decodes `whole` items, one that failed
  // before is tried again: whether a part can be read depends on the part, not on what was read before.
  template <class Load> std::pair<T, int64_t> get(int64_t i, const Load& load, bool whole = false) const {
    if (!skip_bad_) return {load(i), i};
    for (int64_t step = 0; step < size_; ++step) {
      const int64_t candidate = (i + step) % size_;
      if (whole && known_bad(candidate)) continue;
      try {
        return {load(candidate), candidate};
      } catch (const UnreadableFile&) {
        throw;  // the picture may be sound
      } catch (const Error&) {
        const std::lock_guard lock(mutex_);
        bad_.insert(candidate);
      }
    }
    fail("dataset", name_ + ": none of its " + std::to_string(size_) + " pictures can be read");
  }

  // Item i, whole, from the cache if it is there.
  T cached(int64_t i) const {
    {
      std::unique_lock lock(mutex_);
      if (const auto it = items_.find(i); it != items_.end()) {
        const std::shared_ptr<const T> kept = it->second;
        lock.unlock();
        return *kept;
      }
    }
    T item = load_(i);
    const int64_t bytes = bytes_(item);
    {
      const std::lock_guard lock(mutex_);
      if (bytes > budget_ - used_ || items_.count(i)) return item;
      used_ += bytes;
    }
    auto copy = std::make_shared<const T>(item);
    const std::lock_guard lock(mutex_);
    if (!items_.emplace(i, std::move(copy)).second) used_ -= bytes;
    return item;
  }

  // Number of damaged items so far.
  int64_t bad() const {
    const std::lock_guard lock(mutex_);
    return int64_t(bad_.size());
  }

 private:
  bool known_bad(int64_t i) const {
    const std::lock_guard lock(mutex_);
    return bad_.count(i) != 0;
  }

  const std::string name_;
  const int64_t size_;
  const std::function<T(int64_t)> load_;
  const std::function<int64_t(const T&)> bytes_;
  const bool skip_bad_;
  const int64_t budget_;
  mutable std::mutex mutex_;
  mutable std::set<int64_t> bad_;
  mutable int64_t used_ = 0;
  mutable std::map<int64_t, std::shared_ptr<const T>> items_;
};

}  // namespace pursuit::data
