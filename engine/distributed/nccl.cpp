#include "engine/distributed/nccl.h"

#include <ifaddrs.h>
#include <netdb.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "cuda/runtime.h"
#include "engine/base/error.h"
#include "engine/distributed/combine.h"
#include "engine/ops.h"
#include "engine/step/transfer.h"
#ifdef PURSUIT_SIMULATED
#include "cuda/simulated/nccl.h"
#else
#include <nccl.h>
#endif

namespace pursuit::distributed {

namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Makes NCCL's own connections use the interface with this address, unless the user chose one.
void use_interface_of(const std::string& address) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return;
  for (const ifaddrs* i = all; i; i = i->ifa_next) {
    const int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;
    if (family != AF_INET && family != AF_INET6) continue;
    char text[NI_MAXHOST];
    const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (getnameinfo(i->ifa_addr, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0 &&
        address == text)
      setenv("NCCL_SOCKET_IFNAME", (std::string("=") + i->ifa_name).c_str(), 0);
  }
  freeifaddrs(all);
}

// Operations run on a separate stream: it waits for the device's stream when an operation starts, and the
// device's stream waits for it in wait(). So they can be captured along with a step. The communicator is a
// blocking one: its calls return once the operation is on the stream, and a thread watches that they do.
class Nccl final : public Communicator {
 public:
  Nccl(std::shared_ptr<ControlChannel> channel, Device device, const Options& options)
      : Communicator(std::move(channel), device, options.wire),
        options_(options),
        ready_(device.index),
        done_(device.index),
        watcher_([this](const std::stop_token& end) { watch_all(end); }) {
    use_interface_of(control()->address());
    cuda::synchronize(device.index);  // NCCL takes the thread's current device
    ncclUniqueId id;
    if (rank() == 0) {
      check(ncclGetUniqueId(&id), "ncclGetUniqueId");
      control()->set("nccl", std::string(id.internal, sizeof id.internal));
    } else {
      const std::string from_0 = control()->get("nccl");
      if (from_0.size() != sizeof id.internal) fail("ranks", "rank 0 has another version of NCCL");
      std::memcpy(id.internal, from_0.data(), sizeof id.internal);
    }
    ncclComm_t made = nullptr;
    {
      const Limited limited(*this, "ncclCommInitRank", control()->limits().join);
      check(ncclCommInitRank(&made, size(), id, rank()), "ncclCommInitRank");
    }
    const std::lock_guard lock(guard_);
    comm_ = made;
  }

  ~Nccl() override {
    ncclComm_t comm = nullptr;
    {
      const std::lock_guard lock(guard_);
      comm = std::exchange(comm_, nullptr);
    }
    if (!comm) return;
    // If the caller leaves with an exception, the other ranks may never reach what was started.
    if (std::uncaught_exceptions() > exceptions_) {
      ncclCommAbort(comm);
    } else {
      const Limited limited(*this, "ncclCommDestroy", control()->limits().join);
      ncclCommDestroy(comm);
    }
  }

  void start_all_reduce(const Tensor& tensor, Reduction reduction) override {
    require_reducible(tensor, reduction);
    tensor.bump_version("all-reduce");
    compare_calls({"all-reduce", tensor, int(reduction)});
    if (tensor.numel() == 0) return;
    // NCCL's max of a number and NaN is the number. Only a few counts are not f32 on the GPU.
    if (tensor.device() == cpu || tensor.dtype() != DType::f32 || reduction == Reduction::max)
      return reduce_on_host(tensor, reduction);
    Started s{tensor.reshape({tensor.numel()}), {}, reduction};
    const bool rounded = options_.wire == DType::bf16;
    if (rounded) s.travelling = s.tensor.to(DType::bf16);
    const Tensor mine = rounded ? s.travelling : s.tensor;
    if (options_.ordered) {
      s.travelling = empty({size(), mine.numel()}, mine.dtype(), device());
      s.mine = mine;
      gather(mine, s.travelling);
    } else {
      after_work();
      const Limited limited(*this, "ncclAllReduce", control()->limits().answer);
      check(ncclAllReduce(mine.raw(), mine.raw(), size_t(mine.numel()), rounded ? ncclBfloat16 : ncclFloat32,
                          ncclSum, comm_, stream()),
            "ncclAllReduce");
    }
    started_.push_back(std::move(s));
  }

  void wait() override {
    if (started_.empty()) return;
    before_work();
    for (const Started& s : std::exchange(started_, {})) {
      if (options_.ordered) {
        copy_values(s.tensor, s.travelling.select(0, 0));
        for (int other = 1; other < size(); ++other)
          add_to(s.tensor, s.travelling.select(0, other).to(DType::f32));
      } else if (s.travelling.defined()) {
        copy_values(s.tensor, s.travelling);
      }
      if (s.reduction == Reduction::mean) copy_values(s.tensor, s.tensor * double(1.0f / float(size())));
    }
  }

  void broadcast(const Tensor& tensor, int root) override {
    require_sendable(tensor, root);
    if (rank() != root) tensor.bump_version("broadcast");
    compare_calls({"broadcast", tensor, root});
    if (tensor.numel() == 0) return;
    const Tensor there = on_gpu(tensor);
    after_work();
    {
      const Limited limited(*this, "ncclBroadcast", control()->limits().answer);
      check(ncclBroadcast(there.raw(), there.raw(), size_t(there.bytes()), ncclUint8, root, comm_, stream()),
            "ncclBroadcast");
    }
    before_work();
    if (tensor.device() == cpu) copy_bytes(tensor, there);
  }

  void all_gather(const Tensor& mine, const Tensor& all) override {
    require_gathered(mine, all);
    all.bump_version("all-gather");
    compare_calls({"all-gather", mine, 0});
    if (mine.numel() == 0) return;
    if (all.device() == cpu) return gather_on_host(mine, all);
    gather(mine, all);
    before_work();
  }

  void watch() override { watch(cuda::stream(device().index)); }

 private:
  // A reduction in progress.
  struct Started {
    Tensor tensor;      // [n]
    Tensor travelling;  // bf16 [n], or the gathered values of all ranks [size, n]
    Reduction reduction;
    Tensor mine = {};  // input of a gather
  };
  struct Watched {
    std::unique_ptr<Event> event;
    Clock::time_point end;
  };

  // While one lives for too long, the watcher ends the process: an NCCL call may block.
  class Limited {
   public:
    Limited(Nccl& nccl, const char* call, milliseconds limit) : nccl_(nccl) {
      const std::lock_guard lock(nccl_.guard_);
      nccl_.call_ = {call, limit, Clock::now() + limit};
    }
    ~Limited() {
      const std::lock_guard lock(nccl_.guard_);
      nccl_.call_ = {};
    }

   private:
    Nccl& nccl_;
  };

  cudaStream_t stream() const { return static_cast<cudaStream_t>(cuda::rank_stream(device().index)); }

  // Orders the ranks' stream after the work so far; below, the work after the ranks' stream.
  void after_work() {
    ready_.record(cuda::stream(device().index));
    ready_.block(stream());
  }
  void before_work() {
    done_.record(stream());
    watch(stream());
    done_.block(cuda::stream(device().index));
  }

  // Watches the work launched on the stream so far.
  void watch(void* stream) {
    if (cuda::capturing(device().index)) return;
    const std::lock_guard lock(guard_);
    std::unique_ptr<Event> event =
        idle_.empty() ? std::make_unique<Event>(device().index) : std::move(idle_.back());
    if (!idle_.empty()) idle_.pop_back();
    event->record(stream);
    watched_.push_back({std::move(event), Clock::now() + control()->limits().answer});
  }

  void gather(const Tensor& mine, const Tensor& all) {
    after_work();
    const Limited limited(*this, "ncclAllGather", control()->limits().answer);
    check(ncclAllGather(mine.raw(), all.raw(), size_t(mine.bytes()), ncclUint8, comm_, stream()),
          "ncclAllGather");
  }

  void compare_calls(const Call& call) {
    if (!options_.compare_calls || cuda::capturing(device().index)) return;
    const Tensor all = empty({size(), 1}, DType::i64);
    gather_on_host(from_vector(std::vector<int64_t>{call.hash()}, {1}), all);
    require_same(call, all);
  }

  // The tensor, or a copy of its bytes on the GPU.
  Tensor on_gpu(const Tensor& tensor) const {
    if (tensor.device() == device()) return tensor;
    const Tensor bytes = empty({tensor.bytes()}, DType::u8);
    copy_bytes(bytes, tensor);
    return bytes.to(device());
  }
  // `to` is on the CPU.
  static void copy_bytes(const Tensor& to, const Tensor& from) {
    std::memcpy(to.raw(), from.to(cpu).raw(), size_t(to.bytes()));
  }

  void gather_on_host(const Tensor& mine, const Tensor& all) {
    const Tensor there = empty({all.bytes()}, DType::u8, device());
    const Tensor kept = on_gpu(mine);
    gather(kept, there);
    before_work();
    copy_bytes(all, there);
  }

  void reduce_on_host(const Tensor& tensor, Reduction reduction) {
    Shape shape = tensor.shape();
    shape.insert(0, size());
    const Tensor numbers = empty(shape, tensor.dtype());
    gather_on_host(tensor, numbers);
    if (tensor.dtype() == DType::f64)
      combine<double>(numbers, reduction);
    else if (tensor.dtype() == DType::i64)
      combine<int64_t>(numbers, reduction);
    else
      combine<float>(numbers, reduction);
    copy_values(tensor, numbers.select(0, 0));
  }

  // Combines all ranks' numbers into the first rank's.
  template <class T> static void combine(const Tensor& all, Reduction reduction) {
    const int64_t size = all.size(0);
    const size_t n = size_t(all.numel() / size);
    T* to = all.data<T>();
    for (int64_t other = 1; other < size; ++other)
      if (reduction == Reduction::max)
        take_larger(to, to, to + size_t(other) * n, n);
      else
        add(to, to, to + size_t(other) * n, n);
    if constexpr (!std::is_integral_v<T>)
      if (reduction == Reduction::mean) scale(to, n, int(size));
  }

  void check(ncclResult_t result, const char* call) const {
    if (result != ncclSuccess) fail("ranks", text_of(result, call));
  }
  std::string text_of(ncclResult_t result, const char* call) const {
    std::string text = std::string(call) + ": " + ncclGetErrorString(result);
    if (const char* last = ncclGetLastError(comm_); last && *last) text += std::string(": ") + last;
    if (text.find("Duplicate GPU") != std::string::npos) text += "; start at most one rank a GPU";
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
  }

  // Runs in its own thread.
  void watch_all(const std::stop_token& end) {
    try {
      std::string why;
      for (; why.empty() && !end.stop_requested(); why = failure())
        std::this_thread::sleep_for(milliseconds(50));
      if (!why.empty()) end_job(why);
    } catch (const Error&) {
      // The GPU failed; the main thread notices too.
    }
  }

  std::string failure() {
    const std::lock_guard lock(guard_);
    const auto now = Clock::now();
    const auto too_long = [&](const char* what, milliseconds limit) {
      return std::string(what) + " did not end within " + std::to_string(limit.count() / 1000) + " s";
    };
    if (call_.name && now > call_.end) return too_long(call_.name, call_.limit);
    for (; !watched_.empty() && watched_.front().event->done(); watched_.pop_front())
      idle_.push_back(std::move(watched_.front().event));
    if (!watched_.empty() && now > watched_.front().end)
      return too_long("an operation of the ranks", control()->limits().answer);
    ncclResult_t later = ncclSuccess;
    if (comm_ && ncclCommGetAsyncError(comm_, &later) == ncclSuccess && later != ncclSuccess)
      return text_of(later, "NCCL");
    return {};
  }

  // The main thread may be in an operation that never ends.
  void end_job(const std::string& why) {
    // If a rank is lost, the control channel knows the reason and ends the process.
    const std::string reason = control()->wait_for_end(std::chrono::seconds(3)).value_or(why);
    control()->abort(reason);
    const auto end = [this, reason] {
      options_.on_end ? options_.on_end(reason) : end_process(rank(), reason);
    };
    // NCCL's shutdown may hang too.
    std::thread([end] {
      std::this_thread::sleep_for(std::chrono::seconds(5));
      end();
    }).detach();
    ncclComm_t comm = nullptr;
    {
      const std::lock_guard lock(guard_);
      comm = std::exchange(comm_, nullptr);
    }
    if (comm) ncclCommAbort(comm);
    end();
  }

  const Options options_;
  const int exceptions_ = std::uncaught_exceptions();
  Event ready_, done_;
  std::vector<Started> started_;

  std::mutex guard_;  // for what the watcher reads
  ncclComm_t comm_ = nullptr;
  struct {
    const char* name = nullptr;
    milliseconds limit{};
    Clock::time_point end{};
  } call_;  // the NCCL call that the main thread is in
  std::deque<Watched> watched_;
  std::vector<std::unique_ptr<Event>> idle_;
  std::jthread watcher_;
};

}  // namespace

bool nccl_available() { return true; }

std::unique_ptr<Communicator> nccl_communicator(std::shared_ptr<ControlChannel> control, Device device,
                                                const Options& options) {
  return std::make_unique<Nccl>(std::move(control), device, options);
}

}  // namespace pursuit::distributed
