#pragma once
#include <chrono>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "engine/distributed/protocol.h"
#include "engine/distributed/secret.h"
#include "engine/distributed/socket.h"

namespace pursuit::distributed {

// Time limits.
struct Limits {
  std::chrono::milliseconds join{60'000};       // until all ranks have joined
  std::chrono::milliseconds silence{8'000};     // until a silent rank counts as lost
  std::chrono::milliseconds answer{1'800'000};  // of a barrier, a collective, or for a value of a rank

  std::chrono::milliseconds beat() const { return silence / 8; }  // interval between heartbeats
};

// Rank 0's server for the job, in its own thread: lets ranks join, stores the values they exchange, detects
// lost ranks, and tells all why the job ends. Rank 0 itself is one of the connections. A peer that speaks
// another protocol, cannot prove the secret or is silent is disconnected after a few seconds; at most 64 such
// connections are open at a time.
class Server {
 public:
  // `listener` is open until all have joined or the limit expires; `own` is the connection with this process.
  Server(Socket listener, Socket own, int size, const Key& key, const Limits& limits);
  // Waits until the others have closed their connections, or a few seconds. Close the other end of `own`
  // first.
  ~Server();

 private:
  struct Peer;

  void run();
  bool done() const;
  void wait();
  void let_in();
  void read(Peer& peer);
  void handle(Peer& peer, const Message& message);
  void meet(Peer& peer, const Message& message);
  void join(Peer& peer, const Message& message);
  void set(const std::string& key, const std::string& value);
  void barrier();
  void lose(Peer& peer, const std::string& how);
  void end(const std::string& why);
  void look_at_clock();
  void flush(Peer& peer);
  void close(Peer& peer);
  static void send(Peer& peer, const Message& message);
  bool here(int rank) const;
  std::string missing() const;

  Socket listener_;
  const int size_;
  const Key key_;
  const Limits limits_;
  std::list<Peer> peers_;
  Peer* own_ = nullptr;  // null once closed
  std::map<std::string, std::string> values_;
  bool other_secret_ = false;                  // whether a rank with another secret came
  std::optional<std::string> ended_;           // the reason
  bool own_told_ = false;                      // this process has been told
  Clock::time_point begin_, last_, beat_;      // start of the wait for all ranks; of the loop; last heartbeat
  std::optional<Clock::time_point> draining_;  // since the job has ended, or this process closed its side
  std::thread thread_;
};

}  // namespace pursuit::distributed
