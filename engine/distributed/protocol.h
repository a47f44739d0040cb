#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pursuit::distributed {

// What rank 0 and another rank say to each other over their connection, in this order at the start:
//   the rank    hello      this protocol's name, a random number
//   rank 0      challenge  another, the proof of the secret for both
//   the rank    join       rank, ranks, its proof for both numbers and these two
//   rank 0      ready      a name of this session that nobody can foresee; once all ranks have joined
// or refused with the reason. A proof is a keyed hash, so the secret itself is never sent.
enum class Kind : uint8_t {
  hello,      // protocol, number
  challenge,  // number, proof
  join,       // rank, ranks, proof
  refused,    // why: to this rank alone
  ready,      // session
  heartbeat,  // both ways, eight in the time after which silence is a loss
  set,        // key, value
  get,        // key: is answered once somebody has set it
  value,      // key, value
  barrier,    // is answered by the same once all ranks have sent it
  stop,       // one rank was asked to stop: is sent on to all
  failed,     // why: this rank ends
  ended,      // why: the job has ended
  bye,        // this rank leaves in order
};

struct Message {
  Kind kind;
  std::vector<std::string> fields;
};

inline constexpr char protocol_name[] = "pursuit-ranks-1";
// Of bytes a message: before the other side has proved itself, and after it.
inline constexpr size_t stranger_limit = 512, rank_limit = size_t(1) << 20;

// Texts in one: of each its length in 32 bits (little endian) and its bytes.
std::string pack(const std::vector<std::string>& texts);
// Throws Error if these are no such bytes.
std::vector<std::string> unpack(std::string_view bytes);

// Length of the rest in 32 bits, kind, packed fields. Throws Error if it is longer than rank_limit.
std::string encode(const Message& message);

// Takes bytes as they come and gives the messages in them. Throws Error at a message that is too long, of an
// unknown kind, or with other fields than its kind has: whoever sends it does not speak this protocol.
class MessageReader {
 public:
  explicit MessageReader(size_t limit) : limit_(limit) {}
  void set_limit(size_t limit) { limit_ = limit; }
  void add(std::string_view bytes) { buffer_ += bytes; }
  std::optional<Message> next();

 private:
  size_t limit_;
  std::string buffer_;
};

}  // namespace pursuit::distributed
