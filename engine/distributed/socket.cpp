#include "engine/distributed/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace pursuit::distributed {

namespace {

// Whether the descriptor became ready for `events` within the limit.
bool wait_for(int descriptor, short events, std::chrono::milliseconds limit) {
  const auto end = Clock::now() + limit;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd entry{descriptor, events, 0};
    const int ready = poll(&entry, 1, int(std::clamp<int64_t>(left, 0, 1 << 30)));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

sockaddr_storage with_port(const Address& address, int port) {
  sockaddr_storage result = address.bytes;
  if (result.ss_family == AF_INET6)
    reinterpret_cast<sockaddr_in6&>(result).sin6_port = htons(uint16_t(port));
  else
    reinterpret_cast<sockaddr_in&>(result).sin_port = htons(uint16_t(port));
  return result;
}

void set_option(int descriptor, int level, int option) {
  const int on = 1;
  setsockopt(descriptor, level, option, &on, sizeof on);
}

// None if this machine has no such addresses: IPv6 may be switched off.
Socket new_socket(const Address& address) {
  Socket socket(::socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket && errno != EAFNOSUPPORT)
    fail("ranks", std::string("the system gives no socket: ") + std::strerror(errno));
  return socket;
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  other.close();
  return *this;
}

void Socket::close() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

bool Address::is_loopback() const {
  if (bytes.ss_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in&>(bytes).sin_addr.s_addr) >> 24 == 127;
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(bytes).sin6_addr);
}

std::string Address::host() const {
  char text[NI_MAXHOST] = "?";
  getnameinfo(reinterpret_cast<const sockaddr*>(&bytes), size, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

int Address::port() const {
  return ntohs(bytes.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bytes).sin6_port
                                           : reinterpret_cast<const sockaddr_in&>(bytes).sin_port);
}

std::vector<Address> addresses_of(const std::string& host) {
  addrinfo hints = {}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &list))
    fail("ranks", "the host '" + printable(host) + "', where rank 0 is to be met, is not known: " +
                      gai_strerror(error) + "; name it by PURSUIT_ADDRESS");
  std::vector<Address> found;
  for (const addrinfo* entry = list; entry; entry = entry->ai_next) {
    Address address;
    std::memcpy(&address.bytes, entry->ai_addr, entry->ai_addrlen);
    address.size = entry->ai_addrlen;
    found.push_back(address);
  }
  freeaddrinfo(list);
  return found;
}

std::optional<Socket> listen_at(const Address& address, int port) {
  Socket socket = new_socket(address);
  if (socket) {
    // Allows a port whose last connections are still being closed.
    set_option(socket.descriptor(), SOL_SOCKET, SO_REUSEADDR);
    const sockaddr_storage bytes = with_port(address, port);
    if (bind(socket.descriptor(), reinterpret_cast<const sockaddr*>(&bytes), address.size) == 0 &&
        listen(socket.descriptor(), SOMAXCONN) == 0)
      return socket;
  }
  if (errno == EADDRINUSE) return {};
  fail("ranks", "rank 0 cannot listen at " + address.host() + ", port " + std::to_string(port) + ": " +
                    std::strerror(errno) + "; name an address of its machine by PURSUIT_ADDRESS");
}

std::optional<Socket> connect_to(const Address& address, int port, std::chrono::milliseconds limit) {
  Socket socket = new_socket(address);
  if (!socket) return {};
  const sockaddr_storage bytes = with_port(address, port);
  set_blocking(socket, false);
  if (connect(socket.descriptor(), reinterpret_cast<const sockaddr*>(&bytes), address.size) != 0) {
    int error = errno;
    socklen_t size = sizeof error;
    if (error != EINPROGRESS || !wait_for(socket.descriptor(), POLLOUT, limit) ||
        getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0)
      return {};
  }
  set_blocking(socket, true);
  set_option(socket.descriptor(), IPPROTO_TCP, TCP_NODELAY);
  return socket;
}

std::pair<Socket, Socket> connected_pair() {
  int both[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both) != 0)
    fail("ranks", std::string("the system gives no sockets: ") + std::strerror(errno));
  return {Socket(both[0]), Socket(both[1])};
}

Address own_address(const Socket& socket) {
  Address address;
  address.size = sizeof address.bytes;
  getsockname(socket.descriptor(), reinterpret_cast<sockaddr*>(&address.bytes), &address.size);
  return address;
}

void set_blocking(const Socket& socket, bool blocking) {
  const int flags = fcntl(socket.descriptor(), F_GETFL);
  fcntl(socket.descriptor(), F_SETFL, blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

bool send_all(const Socket& socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0)
      bytes.remove_prefix(size_t(sent));
    else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_for(socket.descriptor(), POLLOUT, std::chrono::seconds(10))) return false;
    } else if (errno != EINTR)
      return false;
  }
  return true;
}

std::optional<std::string> receive(const Socket& socket, std::chrono::milliseconds limit) {
  if (!wait_for(socket.descriptor(), POLLIN, limit)) return std::string();
  std::string bytes(1 << 16, '\0');
  const ssize_t count = recv(socket.descriptor(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (count > 0) {
    bytes.resize(size_t(count));
    return bytes;
  }
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return std::string();
  return {};
}

}  // namespace pursuit::distributed
