#include "engine/distributed/server.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <iterator>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace pursuit::distributed {

namespace {

using std::chrono::milliseconds;
constexpr size_t most_strangers = 64;
constexpr milliseconds handshake_limit{5'000}, drain_limit{3'000};

int number(const std::string& text) {
  int n = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  return error == std::errc() && end == text.data() + text.size() ? n : -1;
}

}  // namespace

struct Server::Peer {
  enum class Stage { strange, challenged, joined, left };

  Socket socket;
  MessageReader in{stranger_limit};
  std::string out{};
  Stage stage = Stage::strange;
  Clock::time_point since = Clock::now(), heard = since;
  std::string numbers{};  // nonces of hello and challenge, packed
  int rank = -1;
  std::string awaited{};  // the key of a value that it waits for
  bool in_barrier = false;
};

Server::Server(Socket listener, Socket own, int size, const Key& key, const Limits& limits)
    : listener_(std::move(listener)), size_(size), key_(key), limits_(limits) {
  set_blocking(listener_, false);
  own_ = &peers_.emplace_back(Peer{.socket = std::move(own)});
  begin_ = last_ = beat_ = Clock::now();
  thread_ = std::thread([this] { run(); });
}

Server::~Server() { thread_.join(); }

void Server::run() {
  while (!done()) {
    wait();
    look_at_clock();
    for (Peer& peer : peers_) flush(peer);
    if (own_ && !own_->socket) own_ = nullptr;
    peers_.remove_if([](const Peer& peer) { return !peer.socket; });
  }
}

// This process is told last that the job has ended: it may exit at once, along with the sockets.
bool Server::done() const {
  const bool drained = draining_ && Clock::now() > *draining_ + drain_limit;
  return peers_.empty() || (drained && (own_told_ || !own_));
}

void Server::wait() {
  std::vector<pollfd> entries;
  for (const Peer& peer : peers_)
    entries.push_back({peer.socket.descriptor(), short(POLLIN | (peer.out.empty() ? 0 : POLLOUT)), 0});
  if (listener_) entries.push_back({listener_.descriptor(), POLLIN, 0});
  poll(entries.data(), entries.size(), int(std::min(milliseconds(100), limits_.beat()).count()));
  auto entry = entries.begin();
  for (Peer& peer : peers_)
    if ((entry++)->revents & (POLLIN | POLLHUP | POLLERR)) read(peer);
  if (listener_ && entries.back().revents) let_in();
}

void Server::let_in() {
  Socket socket(accept4(listener_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket) return;
  const auto strange = [this](const Peer& peer) { return &peer != own_ && peer.socket && peer.rank < 0; };
  if (std::count_if(peers_.begin(), peers_.end(), strange) >= ptrdiff_t(most_strangers))
    close(*std::find_if(peers_.begin(), peers_.end(), strange));
  peers_.push_back({.socket = std::move(socket)});
}

void Server::read(Peer& peer) {
  const std::optional<std::string> bytes = receive(peer.socket, milliseconds(0));
  if (!bytes) return lose(peer, "its connection closed");
  peer.heard = Clock::now();
  peer.in.add(*bytes);
  try {
    while (peer.socket) {
      const std::optional<Message> message = peer.in.next();
      if (!message) break;
      handle(peer, *message);
    }
  } catch (const Error&) {
    lose(peer, "what it sends is no message");
  }
}

void Server::handle(Peer& peer, const Message& message) {
  if (peer.stage == Peer::Stage::strange || peer.stage == Peer::Stage::challenged) return meet(peer, message);
  switch (message.kind) {
    case Kind::heartbeat:
      return;
    case Kind::set:
      return set(message.fields[0], message.fields[1]);
    case Kind::get:
      if (const auto found = values_.find(message.fields[0]); found != values_.end())
        send(peer, {Kind::value, {found->first, found->second}});
      else
        peer.awaited = message.fields[0];
      return;
    case Kind::barrier:
      peer.in_barrier = true;
      return barrier();
    case Kind::stop:
      for (Peer& other : peers_)
        if (other.stage == Peer::Stage::joined) send(other, {Kind::stop, {}});
      return;
    case Kind::failed:
      return end("rank " + std::to_string(peer.rank) + " failed: " + message.fields[0]);
    case Kind::bye:
      peer.stage = Peer::Stage::left;
      return;
    default:
      fail("ranks", "a rank does not say this");
  }
}

// Handshake of hello and join: see protocol.h.
void Server::meet(Peer& peer, const Message& message) {
  if (peer.stage == Peer::Stage::strange) {
    if (message.kind != Kind::hello || message.fields[0] != protocol_name) return close(peer);
    const std::string number = random_bytes(32);
    peer.numbers = pack({message.fields[1], number});
    peer.stage = Peer::Stage::challenged;
    return send(peer, {Kind::challenge, {number, keyed_hash(key_, pack({"rank 0", peer.numbers}))}});
  }
  if (message.kind != Kind::join) return close(peer);
  const std::string& rank = message.fields[0];
  const std::string& ranks = message.fields[1];
  if (!equal(message.fields[2], keyed_hash(key_, pack({"rank", peer.numbers, rank, ranks})))) {
    other_secret_ = true;
    return close(peer);
  }
  join(peer, message);
}

void Server::join(Peer& peer, const Message& message) {
  const int rank = number(message.fields[0]), ranks = number(message.fields[1]);
  peer.in.set_limit(rank_limit);
  peer.stage = Peer::Stage::left;  // until it is one of the ranks
  if (ranks != size_ || rank < 0 || rank >= size_) {
    const std::string why = "rank " + message.fields[0] + " was started as one of " + message.fields[1] +
                            " ranks, and rank 0 as one of " + std::to_string(size_);
    send(peer, {Kind::refused, {why}});
    return end(why);
  }
  if (ended_) return send(peer, {Kind::refused, {*ended_}});
  if (here(rank))
    return send(
        peer, {Kind::refused,
               {"rank " + std::to_string(rank) + " is there already; each rank needs a number of its own"}});
  peer.rank = rank;
  peer.stage = Peer::Stage::joined;
  if (!missing().empty()) return;
  listener_.close();
  const std::string session = random_bytes(32);
  for (Peer& other : peers_) {
    if (other.stage == Peer::Stage::joined)
      send(other, {Kind::ready, {session}});
    else
      close(other);
  }
}

void Server::set(const std::string& key, const std::string& value) {
  values_[key] = value;
  for (Peer& peer : peers_)
    if (peer.awaited == key) {
      peer.awaited.clear();
      send(peer, {Kind::value, {key, value}});
    }
}

void Server::barrier() {
  const auto here = [](const Peer& peer) { return peer.in_barrier; };
  if (std::count_if(peers_.begin(), peers_.end(), here) < size_) return;
  for (Peer& peer : peers_) {
    peer.in_barrier = false;
    send(peer, {Kind::barrier, {}});
  }
}

// Closes a connection. If it belonged to a rank that had not left, the job ends.
void Server::lose(Peer& peer, const std::string& how) {
  const bool of_rank = peer.stage == Peer::Stage::joined;
  if (peer.stage == Peer::Stage::challenged) other_secret_ = true;  // it did not accept this one's proof
  const int rank = peer.rank;
  close(peer);
  if (of_rank) end("rank " + std::to_string(rank) + " is lost (" + how + ")");
}

void Server::end(const std::string& why) {
  if (ended_) return;
  ended_ = why;
  draining_ = Clock::now();
  for (Peer& peer : peers_)
    if (peer.stage == Peer::Stage::joined && peer.rank != 0) send(peer, {Kind::ended, {why}});
}

void Server::look_at_clock() {
  const auto now = Clock::now();
  // This process itself was suspended (stopped and continued, or the machine slept).
  if (now - last_ > limits_.silence / 4)
    for (Peer& peer : peers_) peer.heard = peer.since = now;
  last_ = now;
  for (Peer& peer : peers_) {
    if (!peer.socket) continue;
    if (peer.stage == Peer::Stage::joined && now - peer.heard > limits_.silence) {
      const std::string how =
          "nothing was heard of it for " + std::to_string(limits_.silence.count() / 1000) + " s";
      // For a rank that was stopped and goes on.
      send(peer, {Kind::ended, {"rank " + std::to_string(peer.rank) + " is lost (" + how + ")"}});
      flush(peer);
      lose(peer, how);
    } else if (peer.rank < 0 && now - peer.since > handshake_limit)
      close(peer);
    else if (peer.stage == Peer::Stage::joined && now - beat_ >= limits_.beat())
      send(peer, {Kind::heartbeat, {}});
  }
  if (now - beat_ >= limits_.beat()) beat_ = now;
  if (listener_ && !ended_ && now - begin_ > limits_.join) {
    listener_.close();
    end(missing() + " did not come within " + std::to_string(limits_.join.count() / 1000) + " s" +
        (other_secret_ ? "; a rank of another job or with another secret (PURSUIT_JOB_SECRET) came" : ""));
  }

  if (!own_ && !draining_) draining_ = now;
  // While the port is open, ranks that arrive late are told too.
  const bool others = listener_ || std::any_of(peers_.begin(), peers_.end(),
                                               [](const Peer& peer) { return peer.socket && peer.rank > 0; });
  if (ended_ && !own_told_ && (!others || now > *draining_ + drain_limit)) {
    if (own_) send(*own_, {Kind::ended, {*ended_}});
    own_told_ = true;
  }
}

void Server::flush(Peer& peer) {
  while (peer.socket && !peer.out.empty()) {
    const ssize_t sent =
        ::send(peer.socket.descriptor(), peer.out.data(), peer.out.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0)
      peer.out.erase(0, size_t(sent));
    else if (errno == EAGAIN || errno == EWOULDBLOCK)
      return;
    else if (errno != EINTR)
      return lose(peer, "its connection closed");
  }
}

void Server::close(Peer& peer) {
  peer.stage = Peer::Stage::left;
  peer.socket.close();
}

void Server::send(Peer& peer, const Message& message) { peer.out += encode(message); }

bool Server::here(int rank) const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [&](const Peer& peer) { return peer.socket && peer.rank == rank; });
}

// "rank 2 of 4", "ranks 1, 2 of 4", or empty if all have joined.
std::string Server::missing() const {
  std::string list;
  int count = 0;
  for (int rank = 0; rank < size_; ++rank) {
    if (here(rank)) continue;
    list += (count++ ? ", " : "") + std::to_string(rank);
  }
  if (!count) return {};
  return (count > 1 ? "ranks " : "rank ") + list + " of " + std::to_string(size_);
}

}  // namespace pursuit::distributed
