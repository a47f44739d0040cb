#include "engine/distributed/control.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace pursuit::distributed {

namespace {

using std::chrono::milliseconds;
constexpr milliseconds connect_limit{2'000}, handshake_limit{3'000}, abort_limit{5'000};

std::string seconds(milliseconds limit) { return std::to_string(limit.count() / 1000) + " s"; }

// "port 25849 and 15 others".
std::string names_of(const std::vector<int>& ports) {
  return "port " + std::to_string(ports.front()) +
         (ports.size() > 1 ? " and " + std::to_string(ports.size() - 1) + " others" : "");
}

// How a rank's description (names and values alternating) differs from rank 0's; empty if equal.
std::string difference(int rank, const std::vector<std::string>& its, const std::vector<std::string>& own) {
  std::string found;
  for (size_t i = 0; i + 1 < std::max(its.size(), own.size()); i += 2) {
    const bool both = i + 1 < std::min(its.size(), own.size()) && its[i] == own[i];
    if (both && its[i + 1] == own[i + 1]) continue;
    found += found.empty() ? "" : "; ";
    if (!both) {
      found += "it is another version of the program";
      break;
    }
    found += own[i] + " is '" + its[i + 1] + "', not '" + own[i + 1] + "'";
  }
  return found.empty() ? found : "rank " + std::to_string(rank) + " differs from rank 0: " + found;
}

}  // namespace

std::string error_line(int rank, const std::string& why) {
  return (rank ? "[rank " + std::to_string(rank) + "] " : std::string()) + "error: " + printable(why);
}

void record_failure(const std::string& why) {
  const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (!path || !*path) return;
  // torchrun prints the "callstack".
  const std::string text = printable(why), now = std::to_string(std::time(nullptr));
  const nlohmann::json failure = {
      {"message", {{"message", text}, {"extraInfo", {{"py_callstack", text}, {"timestamp", now}}}}}};
  std::ofstream(path) << failure.dump() << '\n';
}

void end_process(int rank, const std::string& why) {
  // The last line of a terminal may hold a progress bar.
  const std::string line = (isatty(STDERR_FILENO) ? "\n" : "") + error_line(rank, why) + "\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  record_failure(why);
  _exit(1);
}

ControlChannel::ControlChannel(const Job& job, ControlOptions options)
    : rank_(job.rank), size_(job.size), options_(std::move(options)) {
  try {
    if (rank_ == 0)
      serve(job);
    else
      find_rank_0(job);
  } catch (...) {
    close();
    throw;
  }
}

ControlChannel::~ControlChannel() { close(); }

void ControlChannel::close() {
  {
    const std::lock_guard lock(guard_);
    phase_ = Phase::leaving;
  }
  if (socket_) shutdown(socket_.descriptor(), SHUT_RDWR);
  if (thread_.joinable()) thread_.join();
  socket_.close();
  server_.reset();
}

Socket ControlChannel::open_port(const Job& job) {
  Socket given(job.listener);
  if (given) {
    int listens = 0;
    socklen_t size = sizeof listens;
    if (getsockopt(given.descriptor(), SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || !listens)
      fail("ranks", "PURSUIT_LISTENER is " + std::to_string(job.listener) + ", which is no listening socket");
    fcntl(given.descriptor(), F_SETFD, FD_CLOEXEC);
    return given;
  }
  std::vector<Address> addresses = addresses_of(job.address);
  const std::string first = addresses.front().host();
  if (!job.on_one_machine()) std::erase_if(addresses, [](const Address& a) { return a.is_loopback(); });
  if (addresses.empty())
    fail("ranks", "other machines cannot reach rank 0 at '" + printable(job.address) +
                      "', which is the loopback address " + first +
                      "; name another address of rank 0's machine by PURSUIT_ADDRESS");
  const std::vector<int> ports = candidate_ports(job);
  for (const Address& address : addresses)
    for (const int port : ports)
      if (std::optional<Socket> socket = listen_at(address, port)) return std::move(*socket);
  fail("ranks", "rank 0 finds no free port at " + addresses.front().host() + " (" + names_of(ports) +
                    "); name one by PURSUIT_PORT on all ranks");
}

// Rank 0 opens the port, writes the secret's file, and is the first to join its own server.
void ControlChannel::serve(const Job& job) {
  Socket listener = open_port(job);
  address_ = own_address(listener).host();
  std::optional<SecretFile> file;
  if (job.secret.empty()) file.emplace(job);
  key_ = key_of(job, file ? file->write() : job.secret);
  auto [own, other] = connected_pair();
  socket_ = std::move(own);
  server_ = std::make_unique<Server>(std::move(listener), std::move(other), size_, key_, options_.limits);
  check(shake_hands() == Proof::right, "ranks", "rank 0 does not answer itself");
  meet_others();
}

void ControlChannel::find_rank_0(const Job& job) {
  const std::vector<Address> addresses = addresses_of(job.address);
  const std::vector<int> ports = candidate_ports(job);
  std::optional<SecretFile> file;
  if (job.secret.empty()) file.emplace(job);
  bool other_secret = false;
  for (const auto end = Clock::now() + options_.limits.join; Clock::now() < end;
       std::this_thread::sleep_for(milliseconds(100))) {
    const std::optional<std::string> secret = file ? file->read() : job.secret;
    if (!secret) continue;
    key_ = key_of(job, *secret);
    for (const Address& address : addresses)
      for (const int port : ports) {
        std::optional<Socket> socket = connect_to(address, port, connect_limit);
        if (!socket) continue;
        socket_ = std::move(*socket);
        address_ = own_address(socket_).host();
        const Proof proof = shake_hands();
        if (proof == Proof::right) return meet_others();
        other_secret |= proof == Proof::wrong;
      }
  }
  fail("ranks", "rank 0 was not found at " + printable(job.address) + ", " + names_of(ports) + ", within " +
                    seconds(options_.limits.join) +
                    (other_secret ? "; who answers there has another secret (PURSUIT_JOB_SECRET)" : ""));
}

// Handshake of hello, challenge and join: see protocol.h.
ControlChannel::Proof ControlChannel::shake_hands() {
  const std::string own_number = random_bytes(32);
  if (!send_all(socket_, encode({Kind::hello, {protocol_name, own_number}}))) return Proof::none;
  MessageReader reader(stranger_limit);
  std::optional<Message> challenge;
  for (const auto end = Clock::now() + handshake_limit; !challenge && Clock::now() < end;) try {
      const std::optional<std::string> bytes = receive(socket_, milliseconds(100));
      if (!bytes) return Proof::none;
      reader.add(*bytes);
      challenge = reader.next();
    } catch (const Error&) {
      return Proof::none;  // a program that speaks another protocol
    }
  if (!challenge || challenge->kind != Kind::challenge) return Proof::none;
  const std::string numbers = pack({own_number, challenge->fields[0]});
  if (!equal(challenge->fields[1], keyed_hash(key_, pack({"rank 0", numbers})))) return Proof::wrong;
  const std::string rank = std::to_string(rank_), ranks = std::to_string(size_);
  const bool sent = send_all(
      socket_, encode({Kind::join, {rank, ranks, keyed_hash(key_, pack({"rank", numbers, rank, ranks}))}}));
  return sent ? Proof::right : Proof::none;
}

void ControlChannel::meet_others() {
  thread_ = std::thread([this] { run(); });
  std::unique_lock lock(guard_);
  changed_.wait(lock, [&] { return phase_ == Phase::joined || ended_; });
  if (ended_) fail("ranks", *ended_);
}

void ControlChannel::run() {
  auto heard = Clock::now(), last = heard, sent = heard;
  while (true) {
    const std::optional<std::string> bytes =
        receive(socket_, std::min(milliseconds(200), options_.limits.beat()));
    const auto now = Clock::now();
    // This process itself was suspended (stopped and continued, or the machine slept).
    if (now - last > options_.limits.silence / 4 || (bytes && !bytes->empty())) heard = now;
    last = now;
    if (!bytes) return end("rank 0 is lost (its connection closed)");
    if (now - heard > options_.limits.silence)
      return end("rank 0 is lost (nothing was heard of it for " + seconds(options_.limits.silence) + ")");
    try {
      reader_.add(*bytes);
      while (const std::optional<Message> message = reader_.next()) handle(*message);
    } catch (const Error&) {
      return end("rank 0 is lost (what it sends is no message)");
    }
    // If another thread is sending, that shows life; it may have to wait for the peer.
    if (now - sent < options_.limits.beat() || !send_guard_.try_lock()) continue;
    sent = now;
    send_all(socket_, encode({Kind::heartbeat, {}}));
    send_guard_.unlock();
  }
}

void ControlChannel::handle(const Message& message) {
  switch (message.kind) {
    case Kind::stop:
      if (options_.on_stop) options_.on_stop();
      return;
    case Kind::refused:
    case Kind::ended:
      return end(message.fields[0]);
    case Kind::ready:
    case Kind::value:
    case Kind::barrier: {
      const std::lock_guard lock(guard_);
      if (message.kind == Kind::ready) {
        session_ = message.fields[0];
        phase_ = Phase::joined;
      } else {
        answer_ = message;
      }
      return changed_.notify_all();
    }
    default:
      return;  // a heartbeat
  }
}

// While joining or leaving, this rank's own thread reports it; at any other time that thread may hang.
void ControlChannel::end(const std::string& why) {
  bool joined = false;
  {
    const std::lock_guard lock(guard_);
    if (ended_) return;
    joined = phase_ == Phase::joined;
  }
  if (joined) {
    if (!options_.on_end) end_process(rank_, why);
    options_.on_end(why);
  }
  const std::lock_guard lock(guard_);
  ended_ = why;
  changed_.notify_all();
}

void ControlChannel::send(const Message& message) {
  const std::lock_guard lock(send_guard_);
  send_all(socket_, encode(message));  // the control thread also notices if it fails
}

Message ControlChannel::ask(const Message& question, Kind kind, const std::string& what) {
  std::unique_lock lock(guard_);
  answer_.reset();
  lock.unlock();
  send(question);
  lock.lock();
  const auto answered = [&] {
    return answer_ && answer_->kind == kind &&
           (kind == Kind::barrier || answer_->fields[0] == question.fields[0]);
  };
  if (!changed_.wait_for(lock, options_.limits.answer, [&] { return ended_ || answered(); }))
    fail("ranks",
         "rank " + std::to_string(rank_) + " waited " + seconds(options_.limits.answer) + " for " + what);
  if (!answered()) fail("ranks", *ended_);
  return *answer_;
}

void ControlChannel::set(const std::string& key, const std::string& value) {
  send({Kind::set, {key, value}});
}

std::string ControlChannel::get(const std::string& key) {
  return ask({Kind::get, {key}}, Kind::value, "'" + key + "' of another rank").fields[1];
}

void ControlChannel::barrier() {
  ask({Kind::barrier, {}}, Kind::barrier, "the others to reach the same place");
}

void ControlChannel::agree(const Description& description) {
  const std::string place = "agree " + std::to_string(agreements_++);
  std::vector<std::string> own;
  for (const auto& [name, value] : description) own.insert(own.end(), {name, value});
  set(place + " " + std::to_string(rank_), pack(own));
  if (rank_ == 0) {
    std::string verdict;
    for (int rank = 1; rank < size_ && verdict.empty(); ++rank)
      verdict = difference(rank, unpack(get(place + " " + std::to_string(rank))), own);
    set(place, verdict);
  }
  const std::string verdict = get(place);
  if (verdict.empty()) return;
  leave();
  fail("ranks", verdict);
}

void ControlChannel::request_stop() { send({Kind::stop, {}}); }

void ControlChannel::abort(const std::string& why) {
  {
    const std::lock_guard lock(guard_);
    if (phase_ != Phase::joined) return;
    phase_ = Phase::leaving;
  }
  send({Kind::failed, {why.substr(0, 4096)}});
  wait_for_end(abort_limit);
}

void ControlChannel::leave() {
  {
    const std::lock_guard lock(guard_);
    phase_ = Phase::leaving;  // before the barrier: a rank that receives its answer first may exit at once
  }
  barrier();
  send({Kind::bye, {}});
}

std::optional<std::string> ControlChannel::wait_for_end(milliseconds limit) {
  std::unique_lock lock(guard_);
  changed_.wait_for(lock, limit, [&] { return ended_.has_value(); });
  return ended_;
}

}  // namespace pursuit::distributed
