#pragma once
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/distributed/job.h"
#include "engine/distributed/protocol.h"
#include "engine/distributed/secret.h"
#include "engine/distributed/server.h"
#include "engine/distributed/socket.h"

namespace pursuit::distributed {

struct ControlOptions {
  Limits limits;
  // Called by the control thread when any rank was asked to stop.
  std::function<void()> on_stop;
  // Called by the control thread with the reason when the job has ended for this rank: another is lost or has
  // failed. Without one: end_process.
  std::function<void(const std::string& why)> on_end;
};

// Ends this process at once with exit code 1, one line on stderr and record_failure: its other threads may be
// in a collective that never ends.
[[noreturn]] void end_process(int rank, const std::string& why);

// "error: why", of another rank than 0 with "[rank 3] " before it.
std::string error_line(int rank, const std::string& why);

// Writes the reason to TORCHELASTIC_ERROR_FILE, where torchrun looks for the first that failed. Does nothing
// where that is not set.
void record_failure(const std::string& why);

// The names and values in which all ranks must agree.
using Description = std::vector<std::pair<std::string, std::string>>;

// The connection of this rank with rank 0, which lasts as long as the job: who is there, who is lost, why the
// job ends, and small values. A thread of its own keeps it alive. For jobs of more than one rank.
class ControlChannel {
 public:
  // Meets the other ranks; rank 0 serves. Throws Error where they do not all come within the limit, and where
  // this rank is refused.
  ControlChannel(const Job& job, ControlOptions options = {});
  // Without leave() or abort() before it, the other ranks are told that this one is lost.
  ~ControlChannel();
  ControlChannel(const ControlChannel&) = delete;
  ControlChannel& operator=(const ControlChannel&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const Limits& limits() const { return options_.limits; }
  // The address of this machine, in numbers, by which the ranks reach each other.
  const std::string& address() const { return address_; }

  // The functions below throw Error where the answer does not come within the limit.

  // A value under a key, for all ranks, and the value that some rank has set or will set.
  void set(const std::string& key, const std::string& value);
  std::string get(const std::string& key);
  // Until all ranks are here.
  void barrier();
  // All ranks call it, with the same names in the same order. Throws the same Error on all of them if one
  // rank differs from rank 0: which rank, and in what.
  void agree(const Description& description);
  // Every rank's on_stop is called, this one's too.
  void request_stop();
  // The other ranks end with "rank 2 failed: why". Returns once they know; then this rank should end too.
  void abort(const std::string& why);
  // All ranks call it at the end: after it they may go one by one.
  void leave();

  // Waits for the end of the job, of which another connection has broken. The reason, if it comes in time.
  std::optional<std::string> wait_for_end(std::chrono::milliseconds limit);
  // Proves this job's secret in the meaning that `text` gives to it, for connections of its own.
  std::string proof(const std::string& text) const {
    return keyed_hash(key_, pack({"other", session_, text}));
  }

 private:
  enum class Phase { joining, joined, leaving };

  enum class Proof { none, wrong, right };

  Socket open_port(const Job& job);
  void serve(const Job& job);
  void find_rank_0(const Job& job);
  Proof shake_hands();
  void meet_others();
  void close();
  void run();
  void handle(const Message& message);
  void end(const std::string& why);
  void send(const Message& message);
  Message ask(const Message& question, Kind kind, const std::string& what);

  const int rank_, size_;
  const ControlOptions options_;
  std::string address_;
  Key key_ = {};
  std::string session_;
  Socket socket_;
  MessageReader reader_{rank_limit};
  std::unique_ptr<Server> server_;  // of rank 0

  std::mutex send_guard_, guard_;  // of socket_'s sending side; of what follows
  std::condition_variable changed_;
  Phase phase_ = Phase::joining;
  std::optional<Message> answer_;     // to get and barrier
  std::optional<std::string> ended_;  // why
  int agreements_ = 0;
  std::thread thread_;
};

}  // namespace pursuit::distributed
