#include "engine/distributed/gloo.h"

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/broadcast.h>
#include <gloo/rendezvous/context.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <deque>
#include <exception>
#include <functional>

#include "engine/base/error.h"
#include "engine/cpu/parallel.h"
#include "engine/distributed/combine.h"
#include "engine/distributed/shared_memory.h"

namespace pursuit::distributed {

namespace {

using std::chrono::milliseconds;

// Gloo's address store, implemented with the control channel.
class Store final : public gloo::rendezvous::Store {
 public:
  explicit Store(ControlChannel& control) : control_(control) {}
  void set(const std::string& key, const std::vector<char>& data) override {
    control_.set("gloo " + key, std::string(data.begin(), data.end()));
  }
  std::vector<char> get(const std::string& key) override {
    const std::string value = control_.get("gloo " + key);
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) control_.get("gloo " + key);
  }
  void wait(const std::vector<std::string>& keys, const milliseconds&) override { wait(keys); }

 private:
  ControlChannel& control_;
};

// Gloo throws in its own threads when it receives bytes that are not its peer's.
void end_with_a_line(int rank) {
  static int own_rank;
  own_rank = rank;
  std::set_terminate([] {
    std::string why = "the program ended unexpectedly";
    if (const std::exception_ptr error = std::current_exception()) try {
        std::rethrow_exception(error);
      } catch (const std::exception& known) {
        why = std::string("a connection between the ranks broke: ") + known.what();
      } catch (...) {
      }
    end_process(own_rank, why);
  });
}

// Operations run one after another in their own thread, in the order of `start`.
class Gloo final : public Communicator {
 public:
  Gloo(std::shared_ptr<ControlChannel> channel, bool one_machine, const Options& options)
      : Communicator(std::move(channel), cpu, options.wire), options_(options) {
    // Writing to a closed connection is then an error of the write.
    std::signal(SIGPIPE, SIG_IGN);
    end_with_a_line(rank());
    if (one_machine) memory_ = SharedMemory::open(*control());
    connect();
    thread_ = std::thread([this] { run(); });
  }

  ~Gloo() override {
    std::shared_ptr<gloo::Context> under_way;
    {
      const std::lock_guard lock(guard_);
      stopping_ = true;
      if (busy_) under_way = context_;
    }
    changed_.notify_all();
    // If the caller left with an exception, its operations end with one too.
    if (under_way) under_way->closeConnections();
    if (under_way && memory_) memory_->close();
    thread_.join();
  }

  void start_all_reduce(const Tensor& tensor, Reduction reduction) override {
    require_reducible(tensor, reduction);
    tensor.bump_version("all-reduce");
    start([this, tensor, reduction] {
      compare_calls({"all-reduce", tensor, int(reduction)});
      if (tensor.dtype() == DType::f64)
        reduce<double, double>(tensor, reduction);
      else if (tensor.dtype() == DType::i64)
        reduce<int64_t, int64_t>(tensor, reduction);
      else if (options_.wire == DType::bf16 && reduction != Reduction::max)
        reduce<float, bf16>(tensor, reduction);
      else
        reduce<float, float>(tensor, reduction);
    });
  }

  void wait() override {
    const auto begin = std::chrono::steady_clock::now();
    std::unique_lock lock(guard_);
    changed_.wait(lock, [&] { return !busy_ && work_.empty(); });
    waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (error_) std::rethrow_exception(error_);
  }

  void broadcast(const Tensor& tensor, int root) override {
    require_sendable(tensor, root);
    if (rank() != root) tensor.bump_version("broadcast");
    start([this, tensor, root] {
      compare_calls({"broadcast", tensor, root});
      if (tensor.numel() == 0) return;
      gloo::BroadcastOptions call(context_);
      call.setOutput(static_cast<char*>(tensor.raw()), size_t(tensor.bytes()));
      call.setRoot(root);
      call.setTag(tag_++);
      gloo::broadcast(call);
    });
    wait();
  }

  void all_gather(const Tensor& mine, const Tensor& all) override {
    require_gathered(mine, all);
    all.bump_version("all-gather");
    start([this, mine, all] {
      compare_calls({"all-gather", mine, 0});
      gather(static_cast<char*>(mine.raw()), static_cast<char*>(all.raw()), size_t(mine.bytes()));
    });
    wait();
  }

 private:
  void connect() {
    try {
      gloo::transport::tcp::attr attributes(control()->address().c_str());
      std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(attributes);
      const auto context = std::make_shared<gloo::rendezvous::Context>(rank(), size());
      context->setTimeout(control()->limits().join);
      Store store(*control());
      context->connectFullMesh(store, device);
      context_ = context;
      know_each_other();
      context->setTimeout(control()->limits().answer);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& gloos) {
      context_.reset();
      throw broken(gloos);
    }
    control()->barrier();
  }

  // Gloo accepts whoever connects first as its peer. So both sides of each pair prove the job's secret.
  void know_each_other() {
    const auto proof = [&](int from, int to) {
      return control()->proof("gloo " + std::to_string(from) + " " + std::to_string(to));
    };
    const size_t bytes = proof(0, 0).size();
    std::string mine, others(bytes * size_t(size()), '\0');
    for (int to = 0; to < size(); ++to) mine += proof(rank(), to);
    gloo::AlltoallOptions call(context_);
    call.setInput(mine.data(), mine.size());
    call.setOutput(others.data(), others.size());
    call.setTag(tag_++);
    gloo::alltoall(call);
    for (int from = 0; from < size(); ++from)
      if (!equal(std::string_view(others).substr(bytes * size_t(from), bytes), proof(from, rank())))
        fail("ranks", "the connection with rank " + std::to_string(from) + " is not with rank " +
                          std::to_string(from));
  }

  // The Error for a broken connection. If a rank is lost or failed, the control channel knows the reason: it
  // ends the process or returns it.
  Error broken(const std::exception& error) {
    std::optional<std::string> why;
    if (!stopping()) why = control()->wait_for_end(std::chrono::seconds(3));
    return Error("[ranks] " +
                 (why ? *why : std::string("a connection between the ranks broke: ") + error.what()));
  }

  bool stopping() {
    const std::lock_guard lock(guard_);
    return stopping_;
  }

  void start(std::function<void()> operation) {
    {
      const std::lock_guard lock(guard_);
      if (error_) std::rethrow_exception(error_);
      work_.push_back(std::move(operation));
    }
    changed_.notify_all();
  }

  void run() {
    std::unique_lock lock(guard_);
    while (true) {
      changed_.wait(lock, [&] { return stopping_ || !work_.empty(); });
      if (stopping_) return;
      const std::function<void()> operation = std::move(work_.front());
      work_.pop_front();
      busy_ = true;
      lock.unlock();
      std::exception_ptr error;
      try {
        // A parallel body flushes denormals to 0.
        parallel_for(1, 1, [&](int64_t, int64_t) { operation(); });
      } catch (const Error&) {
        error = std::current_exception();
      } catch (const std::exception& gloos) {
        error = std::make_exception_ptr(broken(gloos));
      }
      lock.lock();
      if (error) {
        error_ = error;
        work_.clear();
        context_.reset();  // otherwise the other ranks would wait for it
        if (memory_) memory_->close();
      }
      busy_ = false;
      changed_.notify_all();
    }
  }

  void compare_calls(const Call& call) {
    if (!options_.compare_calls) return;
    const int64_t mine = call.hash();
    const Tensor all = empty({size(), 1}, DType::i64);
    gather(&mine, all.raw(), sizeof mine);
    require_same(call, all);
  }

  void gather(const void* mine, void* all, size_t bytes) {
    if (bytes == 0) return;
    gloo::AllgatherOptions call(context_);
    call.setInput(static_cast<char*>(const_cast<void*>(mine)), bytes);
    call.setOutput(static_cast<char*>(all), bytes * size_t(size()));
    call.setTag(tag_++);
    gloo::allgather(call);
  }

  // Reduces numbers of type T, sent as Wire.
  template <class T, class Wire> void reduce(const Tensor& tensor, Reduction reduction) {
    const size_t n = size_t(tensor.numel());
    T* values = tensor.data<T>();
    if (n == 0) return;
    if ((options_.ordered || memory_) && reduction != Reduction::max)
      add_in_order<T, Wire>(values, n);
    else if constexpr (std::is_same_v<T, Wire>)
      combine(values, n, reduction == Reduction::max ? take_larger<T> : static_cast<Combine<T>*>(add));
    else {
      std::vector<Wire> travelling(n);
      convert(travelling.data(), values, n);
      combine(travelling.data(), n, static_cast<Combine<Wire>*>(add));
      convert(values, travelling.data(), n);
    }
    if constexpr (!std::is_integral_v<T>)
      if (reduction == Reduction::mean) scale(values, n, size());
  }

  template <class T> using Combine = void(T*, const T*, const T*, size_t);

  template <class T> void combine(T* values, size_t n, Combine<T>* function) {
    gloo::AllreduceOptions call(context_);
    call.setOutput(values, n);
    call.setReduceFunction([function](void* result, const void* a, const void* b, size_t count) {
      function(static_cast<T*>(result), static_cast<const T*>(a), static_cast<const T*>(b), count);
    });
    call.setTag(tag_++);
    gloo::allreduce(call);
  }

  // In chunks, so that the ranks' numbers need little memory and stay in the cache.
  template <class T, class Wire> void add_in_order(T* values, size_t n) {
    constexpr size_t stretch = SharedMemory::stretch / sizeof(Wire);
    std::vector<Wire> mine, all;
    std::vector<T> next(std::is_same_v<T, Wire> ? 0 : std::min(n, stretch));
    if (!memory_) {
      mine.resize(std::min(n, stretch));
      all.resize(mine.size() * size_t(size()));
    }
    for (size_t begin = 0; begin < n; begin += stretch) {
      const size_t count = std::min(stretch, n - begin);
      T* sum = values + begin;
      convert(memory_ ? static_cast<Wire*>(memory_->mine()) : mine.data(), sum, count);
      if (memory_)
        memory_->meet([this, end = Clock::now() + control()->limits().answer] { check_others(end); });
      else
        gather(mine.data(), all.data(), count * sizeof(Wire));
      const auto of = [&](int other) {
        return memory_ ? static_cast<const Wire*>(memory_->of(other)) : all.data() + count * size_t(other);
      };
      if constexpr (std::is_same_v<T, Wire>) {
        add(sum, of(0), of(1), count);
        for (int other = 2; other < size(); ++other) add(sum, sum, of(other), count);
      } else {
        convert(sum, of(0), count);
        for (int other = 1; other < size(); ++other) {
          convert(next.data(), of(other), count);
          add(sum, sum, next.data(), count);
        }
      }
    }
  }

  // Called while waiting for others in shared memory, where no connection shows that a rank is lost.
  void check_others(Clock::time_point end) {
    if (stopping()) fail("ranks", "the communicator is gone");
    if (const auto why = control()->wait_for_end(milliseconds(0))) fail("ranks", *why);
    if (Clock::now() > end)
      fail("ranks", "rank " + std::to_string(rank()) + " waited " +
                        std::to_string(control()->limits().answer.count() / 1000) +
                        " s for the numbers of another rank");
  }

  const Options options_;
  std::shared_ptr<gloo::Context> context_;
  std::unique_ptr<SharedMemory> memory_;  // for ranks on one machine
  uint32_t tag_ = 0;                      // of the next operation: overlapping operations need different tags

  std::mutex guard_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool busy_ = false, stopping_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace

bool gloo_available() { return true; }

std::unique_ptr<Communicator> gloo_communicator(std::shared_ptr<ControlChannel> control, bool one_machine,
                                                const Options& options) {
  return std::make_unique<Gloo>(std::move(control), one_machine, options);
}

}  // namespace pursuit::distributed
