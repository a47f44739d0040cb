#pragma once
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <utility>

namespace pursuit::segment::interactive {

// Work that many threads ask for and one thread does, in the order in which it was asked for.
class Turns {
 public:
  // Waits for the result of `work`, or throws what it throws. Throws std::future_error if work_until ends
  // before.
  template <class Work> auto ask(Work work) {
    auto task = std::make_shared<std::packaged_task<decltype(work())()>>(std::move(work));
    auto result = task->get_future();
    {
      const std::lock_guard lock(mutex_);
      if (!ended_) waiting_.emplace_back([task] { (*task)(); });
    }
    task.reset();
    asked_.notify_one();
    return result.get();
  }

  // Does what is asked for until `stop` returns true, which is asked every 50 ms.
  template <class Stop> void work_until(Stop stop) {
    while (!stop())
      if (const auto work = next()) work();
    const std::lock_guard lock(mutex_);
    ended_ = true;
    waiting_.clear();
  }

 private:
  // Empty if nothing is asked for within 50 ms.
  std::function<void()> next() {
    std::unique_lock lock(mutex_);
    if (!asked_.wait_for(lock, std::chrono::milliseconds(50), [this] { return !waiting_.empty(); }))
      return {};
    auto work = std::move(waiting_.front());
    waiting_.pop_front();
    return work;
  }

  std::mutex mutex_;
  std::condition_variable asked_;
  std::deque<std::function<void()>> waiting_;
  bool ended_ = false;
};

}  // namespace pursuit::segment::interactive
