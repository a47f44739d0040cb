#pragma once
#include <httplib.h>

#include <functional>
#include <list>
#include <mutex>
#include <thread>

namespace pursuit::segment::interactive {

// httplib's server, bound to 127.0.0.1, for requests that may be hostile or never end. A connection carries
// one request, which has 10 seconds to arrive and at most 16 KiB before its body. Where there are more
// connections than threads, the oldest ones go whose request is not known to be welcome: what has arrived of
// them is still read, but nothing more is waited for. So neither slow nor idle connections hold up others.
class LoopbackServer : public httplib::Server {
 public:
  static constexpr size_t kMostHeaderBytes = size_t(16) << 10;
  static constexpr int kMostConnections = 64;
  static constexpr std::chrono::seconds kReceive{10}, kSend{10}, kLinger{1};

  // `welcome` decides by a request's headers, from any thread, whether its body may follow.
  LoopbackServer(size_t most_body_bytes, std::function<bool(const httplib::Request&)> welcome);
  ~LoopbackServer() override { end(); }

  // Binds a port, 0: a free one, and returns it. Throws Error.
  int bind(int port);
  // Serves in a thread of its own until end().
  void start();
  // Closes connections whose request has not arrived, and waits for the answers to the others.
  void end();

 private:
  struct Connection {
    int socket;
    bool may_go = true;
    bool goes = false;  // was told to
  };
  using Place = std::list<Connection>::iterator;
  class Pool;

  bool process_and_close_socket(int socket) override;
  // The stages of a connection: accepted, with a thread, known to be welcome or not, ended.
  void accepted();
  Place enter(int socket);
  void set_may_go(Place place, bool may_go);
  void leave(Place place);
  void make_room();
  void let_go(Connection& connection);

  std::function<bool(const httplib::Request&)> welcome_;
  std::mutex mutex_;                   // of what follows
  std::list<Connection> connections_;  // that have a thread, the oldest first
  int open_ = 0;                       // connections, with those that wait for a thread
  int going_ = 0;
  bool ending_ = false;
  std::thread listener_;
};

}  // namespace pursuit::segment::interactive
