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

// Owner of a socket's file descriptor. Not inherited by child processes.
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

// A socket address to connect to or listen at.
struct Address {
  sockaddr_storage bytes = {};
  socklen_t size = 0;

  bool is_loopback() const;
  std::string host() const;  // numeric
  int port() const;
};

// Throws Error if the name cannot be resolved.
std::vector<Address> addresses_of(const std::string& host);

// Listens at this address only; port 0 chooses a free one. Returns nothing if the port is taken. Throws Error
// if this machine does not have the address.
std::optional<Socket> listen_at(const Address& address, int port);

// Returns nothing if nobody answers within the limit.
std::optional<Socket> connect_to(const Address& address, int port, std::chrono::milliseconds limit);

// Two sockets connected to each other.
std::pair<Socket, Socket> connected_pair();

Address own_address(const Socket& socket);
void set_blocking(const Socket& socket, bool blocking);

// Sends all bytes; false if the connection broke or accepted none for ten seconds.
bool send_all(const Socket& socket, std::string_view bytes);
// Returns available bytes. Nothing: the connection is closed or broken. Empty: timeout.
std::optional<std::string> receive(const Socket& socket, std::chrono::milliseconds limit);

}  // namespace pursuit::distributed
