#include "apps/segment/interactive/page/loopback_server.h"

#include <fmt/format.h>
#include <poll.h>

#include <cstring>

#include "engine/base/error.h"

namespace pursuit::segment::interactive {
namespace {

using Clock = std::chrono::steady_clock;

// The bytes of one request and its answer.
class BoundedStream : public httplib::Stream {
 public:
  BoundedStream(int socket, Clock::time_point until, size_t most_bytes)
      : socket_(socket), until_(until), left_(most_bytes) {}

  // So many bytes may still be received.
  void allow(size_t bytes) { left_ = bytes; }

  bool is_readable() const override { return begin_ < end_ || ready(POLLIN, Clock::now()); }
  bool is_writable() const override { return ready(POLLOUT, Clock::now()); }

  ssize_t read(char* to, size_t size) override {
    if (begin_ == end_) {
      const size_t most = std::min(left_, buffer_.size());
      if (most == 0 || !ready(POLLIN, until_)) return -1;
      const ssize_t count = recv(socket_, buffer_.data(), most, 0);
      if (count <= 0) return count;
      begin_ = 0;
      end_ = size_t(count);
      left_ -= end_;
    }
    const size_t count = std::min(size, end_ - begin_);
    std::memcpy(to, buffer_.data() + begin_, count);
    begin_ += count;
    return ssize_t(count);
  }

  ssize_t write(const char* from, size_t size) override {
    if (!ready(POLLOUT, Clock::now() + LoopbackServer::kSend)) return -1;
    return send(socket_, from, size, MSG_NOSIGNAL);
  }

  // Ends the answer and reads what still comes: a socket that is closed with unread bytes is reset, and its
  // client may lose the answer.
  void linger(Clock::time_point until) {
    shutdown(socket_, SHUT_WR);
    while (ready(POLLIN, until) && recv(socket_, buffer_.data(), buffer_.size(), 0) > 0) {
    }
  }

  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    ip = "127.0.0.1";
    port = 0;
  }
  void get_local_ip_and_port(std::string& ip, int& port) const override { get_remote_ip_and_port(ip, port); }
  int socket() const override { return socket_; }

 private:
  bool ready(short event, Clock::time_point until) const {
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
      pollfd wanted{socket_, event, 0};
      const int count = poll(&wanted, 1, int(std::max<int64_t>(left.count(), 0)));
      if (count >= 0 || errno != EINTR) return count > 0;
    }
  }

  int socket_;
  Clock::time_point until_;
  size_t left_;
  std::array<char, 16384> buffer_;
  size_t begin_ = 0, end_ = 0;  // what the buffer holds
};

}  // namespace

class LoopbackServer::Pool : public httplib::ThreadPool {
 public:
  explicit Pool(LoopbackServer& server) : ThreadPool(kMostConnections), server_(server) {}
  void enqueue(std::function<void()> serve) override {
    server_.accepted();
    ThreadPool::enqueue(std::move(serve));
  }

 private:
  LoopbackServer& server_;
};

LoopbackServer::LoopbackServer(size_t most_body_bytes, std::function<bool(const httplib::Request&)> welcome)
    : welcome_(std::move(welcome)) {
  set_payload_max_length(most_body_bytes);
  set_tcp_nodelay(true);
  // httplib's default, SO_REUSEPORT, lets two servers have the same port.
  set_socket_options([](int socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  new_task_queue = [this] { return new Pool(*this); };
}

int LoopbackServer::bind(int port) {
  constexpr const char* host = "127.0.0.1";
  const int bound = port == 0 ? bind_to_any_port(host) : bind_to_port(host, port) ? port : -1;
  if (bound < 0)
    fail("serve", fmt::format("port {} of {} cannot be had: {}; choose another, or 0 for a free one", port,
                              host, std::strerror(errno)));
  // httplib lets 5 connections wait to be accepted; the next ones would try again only after a second.
  ::listen(svr_sock_, SOMAXCONN);
  return bound;
}

void LoopbackServer::start() {
  listener_ = std::thread([this] { listen_after_bind(); });
  while (!is_running()) std::this_thread::yield();
}

void LoopbackServer::end() {
  if (!listener_.joinable()) return;
  stop();
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    for (Connection& connection : connections_)
      if (connection.may_go) let_go(connection);
  }
  listener_.join();
}

bool LoopbackServer::process_and_close_socket(int socket) {
  const Place place = enter(socket);
  BoundedStream stream(socket, Clock::now() + kReceive, kMostHeaderBytes);
  bool closed = false;
  const bool answered =
      process_request(stream, /*close_connection*/ true, closed, [&](httplib::Request& request) {
        // Neither parts of answers nor compressed ones.
        request.ranges.clear();
        request.headers.erase("Accept-Encoding");
        const bool welcome = welcome_(request);
        stream.allow(welcome ? payload_max_length_ : 0);
        set_may_go(place, !welcome);
      });
  set_may_go(place, true);
  stream.linger(Clock::now() + kLinger);
  leave(place);
  close(socket);
  return answered;
}

void LoopbackServer::accepted() {
  const std::lock_guard lock(mutex_);
  ++open_;
  make_room();
}

LoopbackServer::Place LoopbackServer::enter(int socket) {
  const std::lock_guard lock(mutex_);
  connections_.push_back({socket});
  if (ending_) let_go(connections_.back());
  make_room();
  return std::prev(connections_.end());
}

void LoopbackServer::set_may_go(Place place, bool may_go) {
  const std::lock_guard lock(mutex_);
  place->may_go = may_go;
  if (may_go && ending_) let_go(*place);
  make_room();
}

void LoopbackServer::leave(Place place) {
  const std::lock_guard lock(mutex_);
  --open_;
  going_ -= place->goes;
  connections_.erase(place);
}

// As many of the oldest connections go as wait for a thread.
void LoopbackServer::make_room() {
  for (Connection& connection : connections_) {
    if (open_ - going_ <= kMostConnections) return;
    if (connection.may_go && !connection.goes) let_go(connection);
  }
}

// What has arrived of its request is still read, and answered if that is all of it.
void LoopbackServer::let_go(Connection& connection) {
  going_ += !connection.goes;
  connection.goes = true;
  shutdown(connection.socket, SHUT_RD);
}

}  // namespace pursuit::segment::interactive
