#include "engine/cpu/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include "engine/base/error.h"

namespace pursuit {

namespace {

void pause() {
#ifdef __SSE__
  _mm_pause();
#endif
}

// While it lives, this thread treats denormal inputs as 0 and flushes denormal results to 0 (DAZ and FTZ).
class FlushDenormals {
#ifdef __SSE__
 public:
  FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
  ~FlushDenormals() { _mm_setcsr(before_); }

 private:
  unsigned before_;
#endif
};

std::atomic<int> awake = 0;  // the number of KeepAwakes

// Waits until value differs from old: spins for about 20 microseconds, because the next operator usually
// follows at once, then sleeps, because another program may need the core.
int wait_while(const std::atomic<int>& value, int old) {
  const int spins = awake.load(std::memory_order_relaxed) > 0 ? 5000 : 500;
  for (int i = 0; i < spins; ++i) {
    if (const int now = value.load(); now != old) return now;
    pause();
  }
  value.wait(old);
  return value.load();
}

thread_local bool inside_parallel = false;  // in a worker, or in a caller whose body is running

struct Job {
  void (*body)(const void*, int64_t, int64_t) = nullptr;
  const void* state = nullptr;
  int64_t n = 0;
  int parts = 0;
};

constexpr int ranges_per_thread = 16;

// The parts of a job assigned to a thread that are still to do. The owner takes the first; a thread that has
// finished its own takes the last.
class alignas(64) Share {
 public:
  void set(int begin, int end) { range_ = pack(begin, end); }
  int left() const { return size(range_); }
  // A part's number, or -1 where none is left.
  int take(bool first) {
    for (uint64_t range = range_;;) {
      if (size(range) <= 0) return -1;
      const int begin = int(range >> 32), end = int(uint32_t(range));
      if (range_.compare_exchange_weak(range, first ? pack(begin + 1, end) : pack(begin, end - 1)))
        return first ? begin : end - 1;
    }
  }

 private:
  static uint64_t pack(int begin, int end) { return uint64_t(begin) << 32 | uint32_t(end); }
  static int size(uint64_t range) { return int(uint32_t(range)) - int(range >> 32); }
  std::atomic<uint64_t> range_ = 0;
};

// Workers wait for `round_` to change and then take parts of the job while it is `open_`: first from their
// own share, which is the same rows in every job and may still be in their core's cache, then from the
// largest other share. The caller takes parts too; when all are taken it closes the job and waits for the
// workers that are `inside_`, so that one that wakes up late never accesses a job that has ended.
class ThreadPool {
 public:
  ~ThreadPool() { resize(1); }

  // Number of threads, including the caller.
  void resize(int threads) {
    if (threads == int(workers_.size()) + 1) return;
    stop_ = true;
    ++round_;
    round_.notify_all();
    for (std::thread& w : workers_) w.join();
    workers_.clear();
    stop_ = false;
    shares_ = std::vector<Share>(size_t(threads));
    try {
      for (int i = 1; i < threads; ++i)
        workers_.emplace_back([this, i, seen = round_.load()] { work(i, seen); });
    } catch (const std::system_error& error) {
      fail("threads", "the system starts no more than " + std::to_string(workers_.size() + 1) + " of " +
                          std::to_string(threads) + " threads (" + error.code().message() + "); use fewer");
    }
  }

  void run(const Job& job) {
    job_ = job;
    const int threads = int(shares_.size());
    for (int i = 0; i < threads; ++i)
      shares_[size_t(i)].set(int(int64_t(job.parts) * i / threads),
                             int(int64_t(job.parts) * (i + 1) / threads));
    open_ = true;
    ++round_;
    round_.notify_all();
    take_parts(0);
    open_ = false;
    for (int inside = inside_; inside != 0;) inside = wait_while(inside_, inside);
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  void work(int self, int seen) {
    inside_parallel = true;
    for (;;) {
      seen = wait_while(round_, seen);
      if (stop_) return;
      ++inside_;
      if (open_) take_parts(self);
      if (--inside_ == 0) inside_.notify_all();
    }
  }

  // An unclaimed part, or -1.
  int next_part(int self) {
    if (const int p = shares_[size_t(self)].take(true); p >= 0) return p;
    for (;;) {
      Share& largest = *std::max_element(shares_.begin(), shares_.end(),
                                         [](const Share& a, const Share& b) { return a.left() < b.left(); });
      if (largest.left() <= 0) return -1;
      if (const int p = largest.take(false); p >= 0) return p;
    }
  }

  void take_parts(int self) {
    const FlushDenormals flush;
    for (int p = next_part(self); p >= 0; p = next_part(self)) {
      try {
        job_.body(job_.state, job_.n * p / job_.parts, job_.n * (p + 1) / job_.parts);
      } catch (...) {
        const std::lock_guard lock(error_guard_);
        if (!error_) error_ = std::current_exception();
      }
    }
  }

  std::vector<std::thread> workers_;
  std::vector<Share> shares_;  // of the caller and the workers
  Job job_;
  std::atomic<int> round_ = 0, inside_ = 0;
  std::atomic<bool> open_ = false, stop_ = false;
  std::mutex error_guard_;
  std::exception_ptr error_;
};

constexpr int most_threads = 1024;

int default_threads() {
  if (const char* wanted = std::getenv("OMP_NUM_THREADS"); wanted && std::atoi(wanted) > 0)
    return std::min(std::atoi(wanted), most_threads);
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) return std::max(1, CPU_COUNT(&cores));
  return int(std::max(1u, std::thread::hardware_concurrency()));
}

std::atomic<int>& threads_wanted() {
  static std::atomic<int> n = default_threads();
  return n;
}

std::mutex pool_guard;
ThreadPool& pool() {
  static ThreadPool p;
  return p;
}

}  // namespace

KeepAwake::KeepAwake() { ++awake; }
KeepAwake::~KeepAwake() { --awake; }

int num_threads() { return threads_wanted(); }
void set_num_threads(int n) { threads_wanted() = std::clamp(n, 1, most_threads); }

void parallel_ranges(int64_t n, int64_t grain, void (*body)(const void*, int64_t, int64_t),
                     const void* state) {
  if (n <= 0) return;
  const int threads = num_threads();
  const int64_t most = threads > 1 ? int64_t(ranges_per_thread) * threads : 1;
  int64_t parts = std::clamp<int64_t>(n / std::max<int64_t>(1, grain), 1, most);
  if (parts > threads) parts -= parts % threads;  // the same number for each
  std::unique_lock lock(pool_guard, std::defer_lock);
  if (parts == 1 || inside_parallel || !lock.try_lock()) {
    const FlushDenormals flush;
    return body(state, 0, n);
  }
  inside_parallel = true;
  struct Leave {
    ~Leave() { inside_parallel = false; }
  } leave;
  pool().resize(threads);
  pool().run({body, state, n, int(parts)});
}

}  // namespace pursuit
