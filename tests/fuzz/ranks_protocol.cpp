#include "engine/base/error.h"
#include "engine/distributed/protocol.h"
#include "tests/fuzz/fuzz.h"

namespace pursuit::fuzz {

namespace {

using namespace distributed;

// Reads bytes received on rank 0's port, in pieces. A decoded message must encode to the same bytes.
void read(std::string_view input) {
  for (const size_t limit : {stranger_limit, rank_limit}) {
    MessageReader reader(limit);
    std::string again;
    for (size_t at = 0; at < input.size(); at += 7) {
      reader.add(input.substr(at, 7));
      while (const auto message = reader.next()) again += encode(*message);
    }
    if (again != input.substr(0, again.size())) __builtin_trap();
  }
}

// The kind and fields of the first message, and the rest of the input.
Parts split(std::string_view input) {
  MessageReader reader(rank_limit);
  reader.add(input);
  try {
    const auto message = reader.next();
    if (!message) return {};
    Parts parts = {std::string(1, char(message->kind))};
    parts.insert(parts.end(), message->fields.begin(), message->fields.end());
    parts.emplace_back(input.substr(encode(*message).size()));
    return parts;
  } catch (const Error&) {
    return {};
  }
}

std::string join(const Parts& parts) {
  const Kind kind = parts[0].empty() ? Kind::hello : Kind(parts[0][0]);
  return encode({kind, {parts.begin() + 1, parts.end() - 1}}) + parts.back();
}

std::vector<std::string> seeds() {
  const std::string number(32, '\x2a');
  return {encode({Kind::hello, {protocol_name, number}}) + encode({Kind::join, {"1", "2", number}}),
          encode({Kind::set, {"key", "value"}}) + encode({Kind::get, {"key"}}) + encode({Kind::barrier, {}}),
          encode({Kind::failed, {"why"}}) + encode({Kind::stop, {}}) + encode({Kind::bye, {}})};
}

}  // namespace

const Target target{.read = read, .split = split, .join = join, .seeds = seeds};

}  // namespace pursuit::fuzz
