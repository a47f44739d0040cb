#include "cuda/simulated/simt.h"

#include <boost/context/fiber.hpp>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>
#ifdef PURSUIT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#include "cuda/simulated/memory.h"
#include "cuda/simulated/stream.h"
#include "cuda/simulated/traffic.h"
#include "engine/base/error.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace simt {

namespace {

constexpr size_t stack_bytes = 256 * 1024;
constexpr size_t fence = 64;               // poisoned bytes after a shared array
constexpr unsigned char unwritten = 0xFF;  // NaN in every floating-point type

enum class Order { ascending, descending, shuffled };
#ifdef PURSUIT_TRAFFIC
constexpr Order orders[] = {Order::ascending};  // this build counts accesses instead of comparing orders
#else
constexpr Order orders[] = {Order::ascending, Order::descending, Order::shuffled};
#endif

// A stack, announced to AddressSanitizer at every switch.
struct Stack {
  const void* bottom = nullptr;
  size_t size = 0;
};

struct Kept {
  boost::context::stack_context memory;
  boost::context::stack_context allocate() { return memory; }
  void deallocate(boost::context::stack_context&) {}
};

struct Copy {
  void* to;
  const void* from;
  size_t bytes;
};

enum class State { ready, at_block, at_warp, done };

struct Thread {
  boost::context::stack_context memory;
  Stack stack;
  boost::context::fiber fiber;
  uint3 index{};
  State state = State::done;
  uint32_t mask = 0;  // of the warp collective, if at_warp
  const char* what = "";
  const char* file = "";  // at_block: where it waits
  int line = 0;
  Words gives;
  std::shared_ptr<std::vector<Words>> gets;
  size_t next_array = 0;
  std::deque<std::vector<Copy>> copies;  // the last group is open
};

struct Array {
  unsigned char* start;
  size_t bytes;
};

[[noreturn]] void fail(const std::string& what) { pursuit::fail("simt", what); }

class Machine {
 public:
  void run(const void* kernel, const std::string& name, dim3 blocks, dim3 threads, size_t shared,
           const std::function<void()>& call) {
    name_ = name;
    check(kernel, blocks, threads, shared);
    gridDim = blocks;
    blockDim = threads;
    call_ = &call;
    shared_limit_ = shared;
    prepare(size_t(threads.x) * threads.y * threads.z);
    const bool compares = std::size(orders) > 1;
    const Snapshot before = compares ? save_memory() : Snapshot();
    Snapshot after;
    for (Order order : orders) {
      if (order != orders[0]) restore_memory(before);
      order_ = order;
      try {
        std::optional<CountedLaunch> counted;
        if (order == orders[0]) counted.emplace(name_);
        run_grid();
      } catch (const std::exception& e) {
        abandon();
        break_down(e.what());
        throw;
      }
      if (!compares) break;
      if (order == orders[0])
        after = save_memory();
      else if (!memory_equals(after))
        fail(
            "the result of " + name_ +
            " depends on the order of its threads, or on when its asynchronous copies arrive: a barrier or a "
            "wait is missing");
    }
  }

  // Asynchronous copies arrive at once in one of the orders, and when they are waited for in the others.
  bool copies_at_once() const { return order_ == Order::descending; }

  void* shared_array(size_t bytes, size_t taken) {
    Thread& t = *current_;
    const size_t number = t.next_array++;
    if (number < arrays_.size()) {
      if (arrays_[number].bytes != bytes) fail(name_ + ": its threads ask for different shared arrays");
      return arrays_[number].start;
    }
    shared_taken_ += taken;
    if (shared_taken_ > shared_limit_)
      fail(name_ + " takes " + std::to_string(shared_taken_) + " bytes of shared memory, its launch gave " +
           std::to_string(shared_limit_));
    unsigned char* start = shared_next_;
    shared_next_ += (bytes + 127) / 128 * 128 + fence;
#ifdef PURSUIT_ASAN
    __asan_unpoison_memory_region(start, bytes);
#endif
    std::memset(start, unwritten, bytes);
    arrays_.push_back({start, bytes});
    return start;
  }

  void allow_shared(const void* kernel, size_t bytes) {
    if (bytes > most_shared())
      fail("a kernel is to have " + std::to_string(bytes) + " bytes of shared memory, there are " +
           std::to_string(most_shared()));
    allowed_[kernel] = bytes;
  }

  void wait(State state) {
    current_->state = state;
    leave();
  }

  Thread& current() { return *current_; }
  const std::string& name() const { return name_; }

 private:
  void check(const void* kernel, dim3 blocks, dim3 threads, size_t shared) const {
    const size_t size = size_t(threads.x) * threads.y * threads.z;
    if (size == 0 || size > 1024 || threads.z > 64)
      fail(name_ + ": a block of " + std::to_string(size) + " threads");
    if (!blocks.x || !blocks.y || !blocks.z || blocks.x > 0x7fffffffu || blocks.y > 65535 || blocks.z > 65535)
      fail(name_ + ": a grid of " + std::to_string(blocks.x) + " x " + std::to_string(blocks.y) + " x " +
           std::to_string(blocks.z) + " blocks");
    const auto found = allowed_.find(kernel);
    const size_t allowed = found == allowed_.end() ? plain_shared : found->second;
    if (shared > allowed)
      fail(name_ + ": " + std::to_string(shared) + " bytes of shared memory, it is allowed " +
           std::to_string(allowed));
  }

  // One fiber per thread, reused by all launches.
  void prepare(size_t n) {
    while (threads_.size() < n) {
      auto t = std::make_unique<Thread>();
      t->memory = boost::context::fixedsize_stack(stack_bytes).allocate();
      t->stack = {static_cast<char*>(t->memory.sp) - t->memory.size, t->memory.size};
      Thread* thread = t.get();
      t->fiber = boost::context::fiber(std::allocator_arg, Kept{t->memory},
                                       [this, thread](boost::context::fiber&& scheduler) {
                                         scheduler_ = std::move(scheduler);
                                         arrived(nullptr);
                                         for (;;) live(*thread);
                                         return boost::context::fiber();
                                       });
      threads_.push_back(std::move(t));
    }
    shared_.resize(2 * most_shared());
  }

  // Threads of a failed kernel are kept suspended, since nobody else may destroy the objects on their stacks.
  void abandon() {
    for (auto& t : threads_) abandoned_.push_back(std::move(t));
    threads_.clear();
#ifdef PURSUIT_ASAN
    __asan_unpoison_memory_region(shared_.data(), shared_.size());
#endif
  }

  void live(Thread& t) {
    try {
      (*call_)();
      for (const auto& group : t.copies)
        if (!group.empty()) fail(name_ + ": a thread ended without waiting for its copies");
    } catch (...) {
      error_ = std::current_exception();
    }
    t.state = State::done;
    leave();
  }

  void enter(Thread& t) {
    current_ = &t;
    threadIdx = t.index;
#ifdef PURSUIT_ASAN
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, t.stack.bottom, t.stack.size);
#endif
    t.fiber = std::move(t.fiber).resume();
#ifdef PURSUIT_ASAN
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

  void leave() {
    [[maybe_unused]] void* fake = nullptr;
#ifdef PURSUIT_ASAN
    __sanitizer_start_switch_fiber(&fake, scheduler_stack_.bottom, scheduler_stack_.size);
#endif
    scheduler_ = std::move(scheduler_).resume();
    arrived(fake);
  }
  // Called on a thread's stack after a switch from the scheduler.
  void arrived([[maybe_unused]] void* fake) {
#ifdef PURSUIT_ASAN
    __sanitizer_finish_switch_fiber(fake, &scheduler_stack_.bottom, &scheduler_stack_.size);
#endif
  }

  void run_grid() {
    const uint64_t blocks = uint64_t(gridDim.x) * gridDim.y * gridDim.z;
    for (uint64_t i = 0; i < blocks; ++i) {
      const uint64_t b = order_ == Order::descending ? blocks - 1 - i : i;
      blockIdx = {unsigned(b % gridDim.x), unsigned(b / gridDim.x % gridDim.y),
                  unsigned(b / gridDim.x / gridDim.y)};
      run_block();
    }
  }

  void run_block() {
    arrays_.clear();
    shared_next_ = shared_.data() + (128 - reinterpret_cast<uintptr_t>(shared_.data()) % 128);
    shared_taken_ = 0;
#ifdef PURSUIT_ASAN
    __asan_poison_memory_region(shared_.data(), shared_.size());
#endif
    const size_t n = size_t(blockDim.x) * blockDim.y * blockDim.z, warps = (n + 31) / 32;
    for (size_t i = 0; i < n; ++i) {
      Thread& t = *threads_[i];
      t.index = {unsigned(i % blockDim.x), unsigned(i / blockDim.x % blockDim.y),
                 unsigned(i / blockDim.x / blockDim.y)};
      t.state = State::ready;
      t.next_array = 0;
      t.copies.clear();
    }
    for (;;) {
      for (size_t w : ordered(warps)) run_warp(w * 32, std::min(n, w * 32 + 32));
      size_t waiting = 0, done = 0;
      for (size_t i = 0; i < n; ++i) {
        waiting += threads_[i]->state == State::at_block;
        done += threads_[i]->state == State::done;
      }
      if (done == n) break;
      if (waiting + done < n) fail_divergent(n);
      const Thread* first = nullptr;
      for (size_t i = 0; i < n; ++i) {
        Thread& t = *threads_[i];
        if (t.state != State::at_block) continue;
        if (!first) first = &t;
        if (t.line != first->line || std::strcmp(t.file, first->file) != 0)
          fail(name_ + ": threads meet in the __syncthreads of line " + std::to_string(first->line) +
               " and of line " + std::to_string(t.line));
        t.state = State::ready;
      }
    }
#ifdef PURSUIT_ASAN
    __asan_unpoison_memory_region(shared_.data(), shared_.size());
#endif
  }

  // Runs the warp until all of its threads are done or wait for the rest of the block.
  void run_warp(size_t begin, size_t end) {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t l : ordered(end - begin)) {
        Thread& t = *threads_[begin + l];
        if (t.state != State::ready) continue;
        enter(t);
        moved = true;
        if (t.state == State::at_warp) meet(begin, end, t);
      }
    }
  }

  // Resumes the lanes of t's mask if all of them have arrived.
  void meet(size_t begin, size_t end, const Thread& t) {
    const uint32_t mask = t.mask & (end - begin < 32 ? (1u << (end - begin)) - 1 : ~0u);
    for (size_t i = begin; i < end; ++i) {
      if (!(mask >> (i - begin) & 1)) continue;
      const Thread& other = *threads_[i];
      if (other.state == State::done)
        fail(name_ + ": " + t.what + " waits for lane " + std::to_string(i - begin) + ", which has ended");
      if (other.state != State::at_warp || other.mask != t.mask) return;
      if (other.what != t.what && std::strcmp(other.what, t.what) != 0)
        fail(name_ + ": lanes of a warp meet in " + t.what + " and in " + other.what);
    }
    auto all = std::make_shared<std::vector<Words>>(32);
    for (size_t i = begin; i < end; ++i)
      if (mask >> (i - begin) & 1) (*all)[i - begin] = threads_[i]->gives;
    for (size_t i = begin; i < end; ++i)
      if (mask >> (i - begin) & 1) {
        threads_[i]->gets = all;
        threads_[i]->state = State::ready;
      }
  }

  [[noreturn]] void fail_divergent(size_t n) const {
    std::string where;
    for (size_t i = 0; i < n && where.size() < 200; ++i) {
      const Thread& t = *threads_[i];
      if (t.state == State::at_warp) where += " thread " + std::to_string(i) + " in " + t.what + ",";
      if (t.state == State::at_block) where += " thread " + std::to_string(i) + " in __syncthreads,";
    }
    where.pop_back();
    fail(name_ + ": threads wait for each other for ever:" + where);
  }

  std::vector<size_t> ordered(size_t n) {
    std::vector<size_t> order(n);
    for (size_t i = 0; i < n; ++i) order[i] = order_ == Order::descending ? n - 1 - i : i;
    if (order_ == Order::shuffled) std::shuffle(order.begin(), order.end(), random_);
    return order;
  }

  std::string name_;
  const std::function<void()>* call_ = nullptr;
  std::map<const void*, size_t> allowed_;
  std::vector<std::unique_ptr<Thread>> threads_, abandoned_;
  boost::context::fiber scheduler_;
  Stack scheduler_stack_;
  Thread* current_ = nullptr;
  std::exception_ptr error_;
  Order order_ = Order::ascending;
  std::mt19937 random_{1};
  std::vector<unsigned char> shared_;
  unsigned char* shared_next_ = nullptr;
  size_t shared_limit_ = 0, shared_taken_ = 0;
  std::vector<Array> arrays_;
};

std::mutex one_at_a_time;

Machine& machine() {
  static Machine& m = *new Machine;  // its fibers never end
  return m;
}

}  // namespace

size_t most_shared() {
  static const size_t bytes = [] {
    const char* set = std::getenv("SIMT_SHARED");
    if (!set) return size_t(227 * 1024);
    char* end = nullptr;
    const unsigned long long given = std::strtoull(set, &end, 10);
    if (end == set || *end || given < plain_shared || given > 227 * 1024)
      fail("SIMT_SHARED is '" + std::string(set) + "', need bytes from 49152 to 232448");
    return size_t(given);
  }();
  return bytes;
}

void allow_shared(const void* kernel, size_t bytes) {
  std::lock_guard lock(one_at_a_time);
  machine().allow_shared(kernel, bytes);
}

void run(const void* kernel, const std::string& name, dim3 blocks, dim3 threads, size_t shared,
         const std::function<void()>& call) {
  submit([=] {
    std::lock_guard lock(one_at_a_time);
    machine().run(kernel, name, blocks, threads, shared, call);
  });
}

void* shared_array(size_t bytes, size_t taken) { return machine().shared_array(bytes, taken); }

void sync_block(const char* file, int line) {
  machine().current().file = file;
  machine().current().line = line;
  machine().wait(State::at_block);
}

const Words* exchange(uint32_t mask, const char* what, const Words& mine) {
  Thread& t = machine().current();
  if (!(mask >> lane() & 1))
    fail(machine().name() + ": a lane calls " + what + " with a mask without itself");
  t.mask = mask;
  t.what = what;
  t.gives = mine;
  machine().wait(State::at_warp);
  return t.gets->data();
}

void throw_misaligned(const char* what) {
  fail(machine().name() + ": " + what + " wants addresses that are multiples of 16 bytes");
}

void copy_later(void* to, const void* from, size_t bytes) {
  if (reinterpret_cast<uintptr_t>(to) % bytes || reinterpret_cast<uintptr_t>(from) % bytes)
    throw_misaligned("cp.async");
  if (machine().copies_at_once()) {
    std::memcpy(to, from, bytes);
    return;
  }
  auto& copies = machine().current().copies;
  if (copies.empty()) copies.emplace_back();
  copies.back().push_back({to, from, bytes});
}

void close_copy_group() {
  auto& copies = machine().current().copies;
  if (copies.empty()) copies.emplace_back();
  copies.emplace_back();
}

void wait_for_copies(int groups_left) {
  auto& copies = machine().current().copies;
  // The open group is not included.
  while (copies.size() > size_t(groups_left) + 1) {
    for (const Copy& c : copies.front()) {
      std::memcpy(c.to, c.from, c.bytes);
      count_read(c.from, c.bytes);
    }
    copies.pop_front();
  }
  if (groups_left == 0 && copies.size() == 1 && copies.front().empty()) copies.clear();
}

}  // namespace simt
