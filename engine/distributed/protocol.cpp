#include "engine/distributed/protocol.h"

#include <array>

#include "engine/base/error.h"

namespace pursuit::distributed {

namespace {

// Number of fields by kind.
constexpr std::array<size_t, 14> fields_of = {2, 2, 3, 1, 1, 0, 2, 1, 2, 0, 0, 1, 1, 0};
static_assert(fields_of.size() == size_t(Kind::bye) + 1);

std::string length_bytes(size_t length) {
  std::string bytes;
  for (int shift = 0; shift < 32; shift += 8) bytes += char(length >> shift & 0xff);
  return bytes;
}

size_t read_length(std::string_view bytes) {
  size_t length = 0;
  for (size_t i = 0; i < 4; ++i) length |= size_t(uint8_t(bytes[i])) << (8 * i);
  return length;
}

}  // namespace

std::string pack(const std::vector<std::string>& texts) {
  std::string bytes;
  for (const std::string& text : texts) bytes += length_bytes(text.size()) + text;
  return bytes;
}

std::vector<std::string> unpack(std::string_view bytes) {
  std::vector<std::string> texts;
  while (!bytes.empty()) {
    check(bytes.size() >= 4, "ranks", "a message ends inside of a length");
    const size_t length = read_length(bytes);
    bytes.remove_prefix(4);
    check(length <= bytes.size(), "ranks", "a message ends inside of a text");
    texts.emplace_back(bytes.substr(0, length));
    bytes.remove_prefix(length);
  }
  return texts;
}

std::string encode(const Message& message) {
  const std::string body = char(message.kind) + pack(message.fields);
  if (body.size() > rank_limit)
    fail("ranks", "a message of " + std::to_string(body.size()) + " bytes is too long; the limit is " +
                      std::to_string(rank_limit));
  return length_bytes(body.size()) + body;
}

std::optional<Message> MessageReader::next() {
  if (buffer_.size() < 4) return {};
  const size_t length = read_length(buffer_);
  check(length >= 1 && length <= limit_, "ranks", "a message has a length that none can have");
  if (buffer_.size() < 4 + length) return {};
  const uint8_t kind = uint8_t(buffer_[4]);
  check(kind < fields_of.size(), "ranks", "a message is of no known kind");
  Message message{Kind(kind), unpack(std::string_view(buffer_).substr(5, length - 1))};
  check(message.fields.size() == fields_of[kind], "ranks", "a message has other fields than its kind");
  buffer_.erase(0, 4 + length);
  return message;
}

}  // namespace pursuit::distributed
