#include "cuda/simulated/nccl.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/simulated/stream.h"
#include "engine/base/error.h"
#include "engine/core/dtype.h"

using pursuit::bf16;

namespace {

// A rank's request to the hub, followed by from() bytes. The answer has to() bytes, or is an error text.
struct Call {
  enum Name : int32_t { init, all_reduce, all_gather, broadcast } name;
  int32_t rank;
  int32_t size_or_root;
  int32_t type;
  uint64_t count;
  uint64_t from() const { return name == init ? 0 : count * bytes_of_one(); }
  uint64_t bytes_of_one() const { return type == ncclFloat32 ? 4 : type == ncclBfloat16 ? 2 : 1; }
  bool fits(const Call& other) const {
    return name == other.name && size_or_root == other.size_or_root && type == other.type &&
           count == other.count;
  }
  std::string str() const {
    const char* names[] = {"ncclCommInitRank", "ncclAllReduce", "ncclAllGather", "ncclBroadcast"};
    return std::string(names[name]) + " of " + std::to_string(count) + " (type " + std::to_string(type) +
           ", " + std::to_string(size_or_root) + ")";
  }
};

bool send_all(int socket, const void* data, size_t bytes) {
  for (const char* p = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t n = send(socket, p, bytes, MSG_NOSIGNAL);
    if (n <= 0) return false;
    p += n;
    bytes -= size_t(n);
  }
  return true;
}

bool receive_all(int socket, void* data, size_t bytes) {
  for (char* p = static_cast<char*>(data); bytes > 0;) {
    const ssize_t n = recv(socket, p, bytes, 0);
    if (n <= 0) return false;
    p += n;
    bytes -= size_t(n);
  }
  return true;
}

// sum += x. In bf16 every partial sum is rounded, as in a ring, which sends partial sums.
void add(ncclDataType_t type, std::vector<char>& sum, const std::vector<char>& x) {
  const auto over = [&]<class T>(T*) {
    T* to = reinterpret_cast<T*>(sum.data());
    const T* from = reinterpret_cast<const T*>(x.data());
    for (size_t i = 0; i < sum.size() / sizeof(T); ++i)
      to[i] = pursuit::downcast<T>(pursuit::upcast(to[i]) + pursuit::upcast(from[i]));
  };
  if (type == ncclFloat32)
    over(static_cast<float*>(nullptr));
  else if (type == ncclBfloat16)
    over(static_cast<bf16*>(nullptr));
  else
    pursuit::fail("simt", "the simulated NCCL adds f32 and bf16 alone");
}

// Combines the calls of all ranks, in a thread of the process that created the id. The thread lives as long
// as the process.
class Hub {
 public:
  explicit Hub(int listener) : listener_(listener) {}

  void serve() {
    if (!meet()) return;
    for (std::vector<Call> calls(ranks_.size()); receive(calls);) answer(calls);
    // A rank is gone: the others get no answer and their connections stay open, so they hang as in NCCL.
  }

 private:
  bool meet() {
    size_t here = 0;
    do {
      const int socket = accept(listener_, nullptr, nullptr);
      Call call;
      if (socket < 0 || !receive_all(socket, &call, sizeof call)) return false;
      ranks_.resize(size_t(call.size_or_root), -1);
      ranks_.at(size_t(call.rank)) = socket;
      ++here;
    } while (here < ranks_.size());
    close(listener_);
    for (const int rank : ranks_) reply(rank, "", {});
    return true;
  }

  bool receive(std::vector<Call>& calls) {
    data_.resize(ranks_.size());
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (!receive_all(ranks_[rank], &calls[rank], sizeof(Call))) return false;
      data_[rank].resize(calls[rank].from());
      if (!receive_all(ranks_[rank], data_[rank].data(), data_[rank].size())) return false;
    }
    return true;
  }

  void answer(const std::vector<Call>& calls) {
    for (const Call& call : calls)
      if (!call.fits(calls[0])) {
        const std::string why = "rank 0 calls " + calls[0].str() + ", and rank " + std::to_string(call.rank) +
                                " calls " + call.str() + ": NCCL hangs or computes nonsense";
        for (const int rank : ranks_) reply(rank, why, {});
        return;
      }
    std::vector<char> result;
    if (calls[0].name == Call::broadcast) {
      result = data_[size_t(calls[0].size_or_root)];
    } else if (calls[0].name == Call::all_gather) {
      for (const auto& part : data_) result.insert(result.end(), part.begin(), part.end());
    } else {
      // As in a ring, each part of the buffer is summed starting at a different rank.
      const size_t one = calls[0].bytes_of_one(), size = ranks_.size();
      const size_t part = (calls[0].count + size - 1) / size * one;
      for (size_t first = 0; first < size; ++first) {
        const size_t begin = std::min(first * part, data_[0].size());
        const size_t end = std::min(begin + part, data_[0].size());
        const auto of = [&](size_t rank) {
          return std::vector<char>(data_[rank].begin() + long(begin), data_[rank].begin() + long(end));
        };
        std::vector<char> sum = of(first);
        for (size_t i = 1; i < size; ++i) add(ncclDataType_t(calls[0].type), sum, of((first + i) % size));
        result.insert(result.end(), sum.begin(), sum.end());
      }
    }
    for (const int rank : ranks_) reply(rank, "", result);
  }

  static void reply(int rank, const std::string& why, const std::vector<char>& result) {
    const uint64_t length = why.size();
    send_all(rank, &length, sizeof length);
    send_all(rank, why.data(), why.size());
    if (why.empty()) send_all(rank, result.data(), result.size());
  }

  const int listener_;
  std::vector<int> ranks_;  // connections
  std::vector<std::vector<char>> data_;
};

sockaddr_un address_of(const ncclUniqueId& id, socklen_t& length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t bytes = strnlen(id.internal, sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, id.internal, bytes);  // abstract socket address: the first byte is 0
  length = socklen_t(offsetof(sockaddr_un, sun_path) + 1 + bytes);
  return address;
}

// SIMT_LATE_RANK names a rank that makes every call later than the others.
void send_call(int socket, const Call& call, const void* from) {
  static const char* const late = std::getenv("SIMT_LATE_RANK");
  if (late && std::atoi(late) == call.rank) usleep(2000);
  send_all(socket, &call, sizeof call);
  send_all(socket, from, call.from());
}

// Hangs if the hub or a rank is gone.
void receive_answer(int socket, void* to, size_t bytes) {
  uint64_t length = 0;
  if (!receive_all(socket, &length, sizeof length))
    for (;;) pause();
  std::string why(length, ' ');
  receive_all(socket, why.data(), why.size());
  if (!why.empty()) pursuit::fail("simt", why);
  receive_all(socket, to, bytes);
}

// In two halves, so that all operations of a group begin before any of them waits.
struct Operation {
  simt::Stream* stream;  // null: run at once
  simt::Work begin, finish;
};
thread_local std::vector<Operation> group;
thread_local int groups = 0;

void give(const std::vector<Operation>& operations) {
  const auto all = [operations] {
    for (const Operation& o : operations) o.begin();
    for (const Operation& o : operations) o.finish();
  };
  if (operations.front().stream)
    operations.front().stream->give(all);
  else
    all();
}

ncclResult_t give_or_group(const Operation& operation) {
  if (groups > 0)
    group.push_back(operation);
  else
    give({operation});
  return ncclSuccess;
}

}  // namespace

struct ncclComm {
  int socket, rank, size;
};

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::random_device random;
  const std::string name = "simulated-nccl-" + std::to_string(getpid()) + "-" + std::to_string(random());
  std::memset(id->internal, 0, sizeof id->internal);
  std::memcpy(id->internal, name.data(), name.size());
  socklen_t length;
  const sockaddr_un address = address_of(*id, length);
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0 || bind(listener, reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      listen(listener, 64) != 0)
    return ncclSystemError;
  std::thread([listener] { Hub(listener).serve(); }).detach();
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  if (rank < 0 || rank >= size) return ncclInvalidUsage;
  socklen_t length;
  const sockaddr_un address = address_of(id, length);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0 || connect(socket, reinterpret_cast<const sockaddr*>(&address), length) != 0)
    return ncclSystemError;
  *comm = new ncclComm{socket, rank, size};
  return give_or_group({nullptr,
                        [=] {
                          send_call(socket, {Call::init, rank, size, 0, 0}, nullptr);
                        },
                        [=] { receive_answer(socket, nullptr, 0); }});
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  simt::ranks.run_until(simt::ranks.given());
  return ncclCommAbort(comm);
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  shutdown(comm->socket, SHUT_RDWR);
  close(comm->socket);
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t* error) {
  *error = ncclSuccess;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSuccess ? "no error" : "an error of the simulated NCCL";
}
const char* ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclGroupStart() {
  ++groups;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (groups == 0) return ncclInvalidUsage;
  if (--groups > 0 || group.empty()) return ncclSuccess;
  give(std::exchange(group, {}));
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t,
                           ncclComm_t comm, cudaStream_t stream) {
  const Call call{Call::all_reduce, comm->rank, 0, type, count};
  return give_or_group({static_cast<simt::Stream*>(stream), [=] { send_call(comm->socket, call, from); },
                        [=] { receive_answer(comm->socket, to, call.from()); }});
}

ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  const Call call{Call::all_gather, comm->rank, 0, type, count};
  return give_or_group({static_cast<simt::Stream*>(stream), [=] { send_call(comm->socket, call, from); },
                        [=] { receive_answer(comm->socket, to, call.from() * size_t(comm->size)); }});
}

ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  const Call call{Call::broadcast, comm->rank, root, type, count};
  return give_or_group({static_cast<simt::Stream*>(stream), [=] { send_call(comm->socket, call, from); },
                        [=] { receive_answer(comm->socket, to, call.from()); }});
}
