#pragma once
#include <sys/socket.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pursuit::distributed {

using Clock = std::chrono::steady_clock;

// A file descriptor of a socket, closed with its owner. Not inherited by programs that this one starts.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { close(); }

  explicit operator bool() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  void close();

 private:
  int descriptor_ = -1;
};

// The address of a host that a socket can have or connect to.
struct Address {
  sockaddr_storage bytes = {};
  socklen_t size = 0;

  bool is_loopback() const;
  std::string host() const;  // as numbers
  int port() const;
};

// Throws Error where the name is not known.
std::vector<Address> addresses_of(const std::string& host);

// Listens at this address and no other, at port 0 on one that is free; nothing if the port is taken. Throws
// Error if this machine has no such address.
std::optional<Socket> listen_at(const Address& address, int port);

// Nothing if nobody answers within the limit.
std::optional<Socket> connect_to(const Address& address, int port, std::chrono::milliseconds limit);

// Two sockets connected to each other.
std::pair<Socket, Socket> connected_pair();

Address own_address(const Socket& socket);
void set_blocking(const Socket& socket, bool blocking);

// All bytes, or false: the connection is broken, or took none for ten seconds.
bool send_all(const Socket& socket, std::string_view bytes);
// What is there. Nothing: the connection is closed or broken. Empty: nothing came within the limit.
std::optional<std::string> receive(const Socket& socket, std::chrono::milliseconds limit);

}  // namespace pursuit::distributed
