#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pursuit::distributed {

// The protocol between rank 0 and another rank over their connection. The handshake:
//   the rank    hello      this protocol's name, a nonce
//   rank 0      challenge  another nonce, and a proof of the secret for both
//   the rank    join       rank, ranks, its proof for both nonces and these two
//   rank 0      ready      an unpredictable session name, once all have joined; or refused: the reason
// A proof is a keyed hash: the secret itself is never sent.
enum class Kind : uint8_t {
  hello,      // protocol, number
  challenge,  // number, proof
  join,       // rank, ranks, proof
  refused,    // why; to this rank only
  ready,      // session
  heartbeat,  // both ways, eight per the time after which a silent rank is lost
  set,        // key, value
  get,        // key; answered once somebody has set it
  value,      // key, value
  barrier,    // answered by the same once all ranks have sent it
  stop,       // one rank was asked to stop; forwarded to all
  failed,     // why: this rank ends
  ended,      // why; the job has ended
  bye,        // this rank leaves in an orderly way
};

struct Message {
  Kind kind;
  std::vector<std::string> fields;
};

inline constexpr char protocol_name[] = "pursuit-ranks-1";
// Message size limit in bytes, before and after the peer has authenticated.
inline constexpr size_t stranger_limit = 512, rank_limit = size_t(1) << 20;

// Packs texts: for each its length in 32 bits (little endian) and its bytes.
std::string pack(const std::vector<std::string>& texts);
// The inverse; throws Error for invalid bytes.
std::vector<std::string> unpack(std::string_view bytes);

// Length of the rest in 32 bits, kind, packed fields. Throws Error if longer than rank_limit.
std::string encode(const Message& message);

// Splits incoming bytes into messages. Throws Error at a message that is too long, of unknown kind or with
// wrong fields: the sender does not speak this protocol.
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
