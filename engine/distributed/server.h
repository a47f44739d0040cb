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

// How long is waited, and for what.
struct Limits {
  std::chrono::milliseconds join{60'000};       // until all ranks have met
  std::chrono::milliseconds silence{8'000};     // until a rank of which nothing is heard is lost
  std::chrono::milliseconds answer{1'800'000};  // in a barrier, a collective, for a value of another rank

  std::chrono::milliseconds beat() const { return silence / 8; }  // between two signs of life
};

// What rank 0 does for the job, in a thread of its own: lets the ranks in, keeps the values they exchange,
// sees who is lost, and tells all of them why the job ends. Rank 0 itself is one of the connections. Whoever
// speaks another protocol, does not prove the secret or says nothing is put out after a few seconds; 64 such
// connections are kept at a time.
class Server {
 public:
  // `listener`: open until all have joined, or the limit. `own`: the connection with this process.
  Server(Socket listener, Socket own, int size, const Key& key, const Limits& limits);
  // Waits until the others have closed their connections, or a few seconds: first close the other end of
  // `own`.
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
  Peer* own_ = nullptr;  // while it is open
  std::map<std::string, std::string> values_;
  int strangers_ = 0;                      // connections without the secret
  std::optional<std::string> ended_;       // why
  bool own_told_ = false;                  // and this process knows it
  Clock::time_point begin_, last_, beat_;  // of the wait for all ranks; of the loop; of the last heartbeat
  std::optional<Clock::time_point> draining_;  // since the job has ended, or this process's side is closed
  std::thread thread_;
};

}  // namespace pursuit::distributed
