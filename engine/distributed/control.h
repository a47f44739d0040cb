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
  // Called by the control thread with the reason when the job has ended for this rank because another is lost
  // or failed. Default: end_process.
  std::function<void(const std::string& why)> on_end;
};

// Ends this process at once with exit code 1, one line on stderr and record_failure; its other threads may be
// blocked in a collective operation.
[[noreturn]] void end_process(int rank, const std::string& why);

// "error: why", prefixed with "[rank 3] " on ranks other than 0.
std::string error_line(int rank, const std::string& why);

// Writes the reason to the file TORCHELASTIC_ERROR_FILE, where torchrun looks for the first failure. A no-op
// if it is not set.
void record_failure(const std::string& why);

// Names and values that must be the same on all ranks.
using Description = std::vector<std::pair<std::string, std::string>>;

// This rank's connection with rank 0, for the whole job: membership, loss of ranks, the reason for the job's
// end, and small values. Its own thread keeps it alive. For jobs with more than one rank.
class ControlChannel {
 public:
  // Connects to the other ranks; rank 0 serves. Throws Error if not all arrive within the limit, or if this
  // rank is refused.
  ControlChannel(const Job& job, ControlOptions options = {});
  // Unless leave() or abort() was called, the other ranks are told that this one is lost.
  ~ControlChannel();
  ControlChannel(const ControlChannel&) = delete;
  ControlChannel& operator=(const ControlChannel&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const Limits& limits() const { return options_.limits; }
  // The numeric address of this machine at which other ranks reach it.
  const std::string& address() const { return address_; }

  // The functions below throw Error if the answer does not arrive within the limit.

  // Sets a value for all ranks, and gets one that some rank has set or will set.
  void set(const std::string& key, const std::string& value);
  std::string get(const std::string& key);
  // Waits for all ranks.
  void barrier();
  // Called by all ranks with the same names in the same order. If a rank's values differ from rank 0's,
  // throws the same Error on all ranks, which says which rank and what.
  void agree(const Description& description);
  // Calls on_stop on every rank, including this one.
  void request_stop();
  // Ends the other ranks with "rank 2 failed: why". Returns once they know; this rank should then end too.
  void abort(const std::string& why);
  // Called by all ranks at the end; afterwards they may exit one by one.
  void leave();

  // After another connection broke: waits for the job's end and returns the reason, if it arrives in time.
  std::optional<std::string> wait_for_end(std::chrono::milliseconds limit);
  // A proof of this job's secret, bound to `text`, for use on other connections.
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
  std::unique_ptr<Server> server_;  // on rank 0

  std::mutex send_guard_, guard_;  // for sending on socket_; for the members below
  std::condition_variable changed_;
  Phase phase_ = Phase::joining;
  std::optional<Message> answer_;     // to get and barrier
  std::optional<std::string> ended_;  // the reason
  int agreements_ = 0;
  std::thread thread_;
};

}  // namespace pursuit::distributed
